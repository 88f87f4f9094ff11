/** dropout_apply: y = x * (kept ? 1 / (1 - p) : 0), the mask recomputed from Philox wherever it is needed. */
#include "isa.hpp"
#include "masks.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

void dropout_apply(Pool& pool, float* y, const float* x, size_t n, const Dropout& dropout) {
  const Chunks c = chunks(n, 4096, SIZE_MAX);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    float factors[mask_group];
    for (size_t i = c.begin(task); i < c.end(task); i += mask_group) {
      const size_t count = smaller(mask_group, c.end(task) - i);
      if (dropout.threshold == 0) {
        for (size_t j = 0; j < count; j++) factors[j] = 1.0f;
      } else {
        dropout_factors(factors, i, count, dropout);
      }
      for (size_t j = 0; j < count; j++) y[i + j] = x[i + j] * factors[j];
    }
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
