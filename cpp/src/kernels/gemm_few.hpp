/**
 * Products of a few rows, as generation makes them: each element of op(B) is used so rarely that packing it
 * would cost more than the product. B is read once, as it lies.
 */
#pragma once

#include "gemm_pack.hpp"
#include "micro.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

constexpr size_t few_rows = 4;
constexpr size_t few_columns = 64;           ///< columns of a task are a multiple of it
constexpr size_t few_task_products = 32768;  ///< a task for less would cost more than it takes

/** Six to eight accumulators: enough to hide the latency of a multiply-add. */
template <size_t MR>
constexpr size_t few_vectors = 8 / MR;

/** Columns [begin, end) of out where a row of b is contiguous: NN and TN. */
template <size_t MR>
static void few_by_columns(size_t K, Strided a, const float* b, size_t N, float* out, size_t begin,
                           size_t end, bool accumulate) {
  constexpr size_t NV = few_vectors<MR>;
  size_t j = begin;
  for (; j + NV * lanes <= end; j += NV * lanes)
    put(multiply<MR, NV>(K, a.data, a.row, a.column, b + j, N), out + j, N, accumulate);
  for (; j + lanes <= end; j += lanes)
    put(multiply<MR, 1>(K, a.data, a.row, a.column, b + j, N), out + j, N, accumulate);
  for (; j < end; j++)
    for (size_t i = 0; i < MR; i++) {
      float sum = accumulate ? out[i * N + j] : 0.0f;
      for (size_t k = 0; k < K; k++) sum += *a.at(i, k).data * b[k * N + j];
      out[i * N + j] = sum;
    }
}

/** out[i, j] for MR rows of a and NC rows of b, all contiguous in k. */
template <size_t MR, size_t NC>
TABGPT_INLINE void dots(size_t K, const float* a, const float* b, float* out, size_t N, bool accumulate) {
  vf sums[MR][NC];
  for (size_t i = 0; i < MR; i++)
    for (size_t j = 0; j < NC; j++) sums[i][j] = splat(0.0f);
  for_vectors(K, [&](size_t k, auto n) {
    vf x[MR];
    for (size_t i = 0; i < MR; i++) x[i] = load_n(a + i * K + k, n);
    for (size_t j = 0; j < NC; j++) {
      const vf y = load_n(b + j * K + k, n);
      for (size_t i = 0; i < MR; i++) sums[i][j] = madd(x[i], y, sums[i][j]);
    }
  });
  for (size_t i = 0; i < MR; i++)
    for (size_t j = 0; j < NC; j++) {
      const float dot = sum(sums[i][j]);
      out[i * N + j] = accumulate ? out[i * N + j] + dot : dot;
    }
}

/** The same where a column of op(B) is contiguous: NT. */
template <size_t MR>
static void few_by_dots(size_t K, const float* a, const float* b, size_t N, float* out, size_t begin,
                        size_t end, bool accumulate) {
  constexpr size_t NC = MR <= 2 ? 4 : 2;
  size_t j = begin;
  for (; j + NC <= end; j += NC) dots<MR, NC>(K, a, b + j * K, out + j, N, accumulate);
  for (; j < end; j++) dots<MR, 1>(K, a, b + j * K, out + j, N, accumulate);
}

/** Columns [begin, end) of out[M, N] (+)= op(A) op(B) for 1 <= M <= few_rows.
 */
template <size_t MR = few_rows>
static void multiply_few(size_t M, size_t K, Strided a, Strided b, size_t N, float* out, size_t begin,
                         size_t end, bool accumulate) {
  if (M != MR) {
    if constexpr (MR > 1) multiply_few<MR - 1>(M, K, a, b, N, out, begin, end, accumulate);
  } else if (b.row == 1) {
    few_by_columns<MR>(K, a, b.data, N, out, begin, end, accumulate);
  } else {
    few_by_dots<MR>(K, a.data, b.data, N, out, begin, end, accumulate);
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
