/**
 * layernorm_forward, layernorm_backward over the last axis, eps 1e-5 (Ba et al. 2016).
 *
 * Mean and variance in two passes over a row that is in L1. The gradients of weight and bias are summed over
 * fixed chunks of rows, then chunk by chunk in order.
 */
#include <cmath>

#include "isa.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

namespace {
constexpr float eps = 1e-5f;
}

void layernorm_forward(Pool& pool, float* out, float* mean, float* rstd, const float* x, const float* weight,
                       const float* bias, size_t R, size_t C) {
  const Chunks c = chunks(R, divide_up(4096, C), SIZE_MAX);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    for (size_t r = c.begin(task); r < c.end(task); r++) {
      const float* const row = x + r * C;
      vf total = splat(0.0f);
      for_vectors(C, [&](size_t i, auto n) { total = total + load_n(row + i, n); });
      const float mu = sum(total) / static_cast<float>(C);
      vf squares = splat(0.0f);
      for_vectors(C, [&](size_t i, auto n) {
        vf d = load_n(row + i, n) - splat(mu);
        if (n < lanes) d = select(lane_index() < static_cast<int32_t>(n), d, splat(0.0f));
        squares = madd(d, d, squares);
      });
      const float scale = 1.0f / std::sqrt(sum(squares) / static_cast<float>(C) + eps);
      for_vectors(C, [&](size_t i, auto n) {
        const vf normal = (load_n(row + i, n) - splat(mu)) * splat(scale);
        store_n(out + r * C + i, madd(normal, load_n(weight + i, n), load_n(bias + i, n)), n);
      });
      mean[r] = mu;
      rstd[r] = scale;
    }
  });
}

void layernorm_backward(Pool& pool, void* workspace, float* dx, float* dweight, float* dbias, const float* dy,
                        const float* x, const float* weight, const float* mean, const float* rstd, size_t R,
                        size_t C) {
  float* const partial = static_cast<float*>(workspace);  // [chunks][2][C]: weight, bias
  const Chunks c = chunks(R, 8, row_chunks);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    float* const dw = partial + task * 2 * C;
    float* const db = dw + C;
    for (size_t i = 0; i < 2 * C; i++) dw[i] = 0.0f;
    for (size_t r = c.begin(task); r < c.end(task); r++) {
      const vf mu = splat(mean[r]), scale = splat(rstd[r]);
      const float *const xr = x + r * C, *const dyr = dy + r * C;
      vf sum_g = splat(0.0f), sum_gx = splat(0.0f);
      for_vectors(C, [&](size_t i, auto n) {
        const vf d = load_n(dyr + i, n), normal = (load_n(xr + i, n) - mu) * scale;
        const vf g = d * load_n(weight + i, n);
        sum_g = sum_g + g;
        sum_gx = madd(g, normal, sum_gx);
        store_n(dw + i, madd(d, normal, load_n(dw + i, n)), n);
        store_n(db + i, load_n(db + i, n) + d, n);
      });
      const vf mean_g = splat(sum(sum_g) / static_cast<float>(C)),
               mean_gx = splat(sum(sum_gx) / static_cast<float>(C));
      for_vectors(C, [&](size_t i, auto n) {
        const vf normal = (load_n(xr + i, n) - mu) * scale;
        const vf g = load_n(dyr + i, n) * load_n(weight + i, n);
        const vf change = (g - mean_g - normal * mean_gx) * scale;
        store_n(dx + r * C + i, load_n(dx + r * C + i, n) + change, n);
      });
    }
  });
  const Chunks columns = chunks(C, 64, SIZE_MAX);
  pool.parallel_for(columns.count, [&](size_t task, size_t) {
    const size_t begin = columns.begin(task);
    for_vectors(columns.end(task) - begin, [&](size_t ii, auto n) {
      const size_t i = begin + ii;
      vf dw = splat(0.0f), db = splat(0.0f);
      for (size_t chunk = 0; chunk < c.count; chunk++) {
        dw = dw + load_n(partial + chunk * 2 * C + i, n);
        db = db + load_n(partial + chunk * 2 * C + C + i, n);
      }
      store_n(dweight + i, load_n(dweight + i, n) + dw, n);
      store_n(dbias + i, load_n(dbias + i, n) + db, n);
    });
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
