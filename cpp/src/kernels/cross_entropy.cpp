/** cross_entropy_forward, cross_entropy_backward: a row of logits at a time, its largest subtracted first. */
#include <cmath>

#include "isa.hpp"
#include "math.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

namespace {

struct Normaliser {
  float largest, total;  ///< total = sum of exp(x - largest); NaN if any x is
};

Normaliser normaliser(const float* row, size_t V) {
  vf largest = splat(row[0]);
  for_vectors(V, [&](size_t i, auto n) {
    vf x = load_n(row + i, n);
    if (n < lanes) x = select(lane_index() < static_cast<int32_t>(n), x, largest);
    largest = max(x, largest);
  });
  const float top = max_lane(largest);
  double total = 0;  // of blocks: one float32 sum over GPT-2's 50257 entries would lose a digit
  for (size_t begin = 0; begin < V; begin += 512) {
    vf block = splat(0.0f);
    for_vectors(smaller(512, V - begin), [&](size_t i, auto n) {
      vf e = exp(load_n(row + begin + i, n) - splat(top));
      if (n < lanes) e = select(lane_index() < static_cast<int32_t>(n), e, splat(0.0f));
      block = block + e;
    });
    total += sum(block);
  }
  return {top, static_cast<float>(total)};
}

Chunks row_tasks(size_t R, size_t V) { return chunks(R, divide_up(2048, V), SIZE_MAX); }

}  // namespace

void cross_entropy_forward(Pool& pool, float* losses, const float* logits, const uint32_t* targets, size_t R,
                           size_t V) {
  const Chunks rows = row_tasks(R, V);
  pool.parallel_for(rows.count, [&](size_t task, size_t) {
    for (size_t r = rows.begin(task); r < rows.end(task); r++) {
      const float* const row = logits + r * V;
      const Normaliser norm = normaliser(row, V);
      losses[r] = std::log(norm.total) + (norm.largest - row[targets[r]]);
    }
  });
}

void cross_entropy_backward(Pool& pool, float* logits, const uint32_t* targets, size_t R, size_t V,
                            float scale) {
  const Chunks rows = row_tasks(R, V);
  pool.parallel_for(rows.count, [&](size_t task, size_t) {
    for (size_t r = rows.begin(task); r < rows.end(task); r++) {
      float* const row = logits + r * V;
      const Normaliser norm = normaliser(row, V);
      const vf top = splat(norm.largest), factor = splat(scale / norm.total);
      for_vectors(V, [&](size_t i, auto n) { store_n(row + i, exp(load_n(row + i, n) - top) * factor, n); });
      row[targets[r]] -= scale;
    }
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
