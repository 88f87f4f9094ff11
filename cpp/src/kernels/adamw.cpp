/** adamw: decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), in PyTorch's order of operations.
 */
#include <cmath>

#include "isa.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

void adamw(Pool& pool, float* p, float* m, float* v, const float* g, size_t n, const AdamW& a) {
  const vf keep = splat(static_cast<float>(1.0 - a.lr * a.weight_decay));
  const vf beta1 = splat(static_cast<float>(a.beta1)), rest1 = splat(static_cast<float>(1.0 - a.beta1));
  const vf beta2 = splat(static_cast<float>(a.beta2)), rest2 = splat(static_cast<float>(1.0 - a.beta2));
  const vf rate = splat(static_cast<float>(a.lr / a.bias_correction1));
  const vf root2 = splat(static_cast<float>(1.0 / std::sqrt(a.bias_correction2)));
  const vf eps = splat(static_cast<float>(a.eps)), grad_scale = splat(static_cast<float>(a.grad_scale));
  const Chunks c = chunks(n, 8192, SIZE_MAX);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    const size_t begin = c.begin(task);
    for_vectors(c.end(task) - begin, [&](size_t ii, auto count) {
      const size_t i = begin + ii;
      const vf grad = load_n(g + i, count) * grad_scale;
      const vf mean = madd(beta1, load_n(m + i, count), rest1 * grad);
      const vf square = madd(beta2, load_n(v + i, count), rest2 * grad * grad);
      const vf step = rate * mean / madd(sqrt(square), root2, eps);
      store_n(m + i, mean, count);
      store_n(v + i, square, count);
      store_n(p + i, load_n(p + i, count) * keep - step, count);
    });
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
