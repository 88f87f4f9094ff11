/** embedding_forward, embedding_backward: token plus learned position. */
#include "isa.hpp"
#include "masks.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

void embedding_forward(Pool& pool, float* out, const uint32_t* tokens, const float* wte, const float* wpe,
                       size_t B, size_t T, size_t C, size_t position0, const Dropout& dropout) {
  const Chunks rows = chunks(B * T, divide_up(4096, C), SIZE_MAX);
  pool.parallel_for(rows.count, [&](size_t task, size_t) {
    float factors[mask_group];
    for (size_t r = rows.begin(task); r < rows.end(task); r++) {
      const float* const token = wte + size_t{tokens[r]} * C;
      const float* const position = wpe + (position0 + r % T) * C;
      float* const y = out + r * C;
      for (size_t i = 0; i < C; i++) y[i] = token[i] + position[i];
      if (dropout.threshold == 0) continue;
      for (size_t i = 0; i < C; i += mask_group) {
        const size_t count = smaller(mask_group, C - i);
        dropout_factors(factors, uint64_t{r} * C + i, count, dropout);
        for (size_t j = 0; j < count; j++) y[i + j] *= factors[j];
      }
    }
  });
}

/** Tasks are ranges of channels: each adds its part of every row, in row order, so no two write the same
 * place. */
void embedding_backward(Pool& pool, void*, float* dwte, float* dwpe, const float* dx, const uint32_t* tokens,
                        size_t B, size_t T, size_t C) {
  const Chunks channels = chunks(C, 32, SIZE_MAX);
  const Chunks positions = chunks(T, divide_up(4096, B * C), SIZE_MAX);
  pool.parallel_for(channels.count + positions.count, [&](size_t task, size_t) {
    if (task < channels.count) {
      for (size_t r = 0; r < B * T; r++) {
        float* const token = dwte + size_t{tokens[r]} * C;
        for (size_t i = channels.begin(task); i < channels.end(task); i++) token[i] += dx[r * C + i];
      }
      return;
    }
    const size_t part = task - channels.count;
    for (size_t t = positions.begin(part); t < positions.end(part); t++)
      for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < C; i++) dwpe[t * C + i] += dx[(b * T + t) * C + i];
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
