/** gelu_forward, gelu_backward: elementwise, both GELUs (math.hpp); alone here, in training they are part of
 * a product's epilogue. */
#include "isa.hpp"
#include "math.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

namespace {
constexpr size_t chunk = 4096;
}

void gelu_forward(Pool& pool, float* out, const float* x, size_t n, Gelu kind) {
  const Chunks c = chunks(n, chunk, SIZE_MAX);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    const size_t begin = c.begin(task);
    for_vectors(c.end(task) - begin, [&](size_t i, auto count) {
      store_n(out + begin + i, gelu_value(load_n(x + begin + i, count), kind).y, count);
    });
  });
}

void gelu_backward(Pool& pool, float* dx, const float* dout, const float* x, size_t n, Gelu kind) {
  const Chunks c = chunks(n, chunk, SIZE_MAX);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    const size_t begin = c.begin(task);
    for_vectors(c.end(task) - begin, [&](size_t i, auto count) {
      const vf slope = gelu_value(load_n(x + begin + i, count), kind).slope;
      store_n(dx + begin + i, load_n(dout + begin + i, count) * slope, count);
    });
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
