/** bias_backward, sum_of_squares: sums over fixed chunks, then over the chunks in order. */
#include "isa.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

void bias_backward(Pool& pool, void* workspace, float* db, const float* dy, size_t M, size_t N) {
  float* const partial = static_cast<float*>(workspace);  // [row chunks][N]
  const Chunks rows = chunks(M, 16, row_chunks);
  pool.parallel_for(rows.count, [&](size_t task, size_t) {
    float* const total = partial + task * N;
    for (size_t i = 0; i < N; i++) total[i] = 0.0f;
    for (size_t r = rows.begin(task); r < rows.end(task); r++) {
      const float* const row = dy + r * N;
      for_vectors(
          N, [&](size_t i, auto n) { store_n(total + i, load_n(total + i, n) + load_n(row + i, n), n); });
    }
  });
  const Chunks columns = chunks(N, 128, SIZE_MAX);
  pool.parallel_for(columns.count, [&](size_t task, size_t) {
    const size_t begin = columns.begin(task);
    for_vectors(columns.end(task) - begin, [&](size_t ii, auto n) {
      const size_t i = begin + ii;
      vf total = splat(0.0f);
      for (size_t chunk = 0; chunk < rows.count; chunk++) total = total + load_n(partial + chunk * N + i, n);
      store_n(db + i, load_n(db + i, n) + total, n);
    });
  });
}

double sum_of_squares(Pool& pool, void* workspace, const float* x, size_t n) {
  double* const partial = static_cast<double*>(workspace);
  const Chunks c = chunks(n, 4096, norm_chunks);
  pool.parallel_for(c.count, [&](size_t task, size_t) {
    // Eight sums, so that the additions are not one chain; their order is fixed by the chunk.
    double sums[8] = {};
    size_t i = c.begin(task);
    for (; i + 8 <= c.end(task); i += 8)
      for (size_t j = 0; j < 8; j++) sums[j] += double{x[i + j]} * double{x[i + j]};
    for (; i < c.end(task); i++) sums[0] += double{x[i]} * double{x[i]};
    partial[task] = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  });
  double total = 0;
  for (size_t task = 0; task < c.count; task++) total += partial[task];
  return total;
}

}  // namespace tabgpt::kernels::TABGPT_ISA
