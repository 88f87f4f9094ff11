/** Filling the GEMM's panels: panel[k][W] from W rows of a strided matrix, zeros past the last row. */
#pragma once

#include "blocks.hpp"
#include "simd.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

/** Element (i, k) is at data[i * row + k * column]; one of the strides is 1. */
struct Strided {
  const float* data;
  size_t row, column;
  Strided at(size_t i, size_t k) const { return {data + i * row + k * column, row, column}; }
};

/** W floats; in vectors of 4, which a constant memcpy is not on every target. */
template <size_t W>
TABGPT_INLINE void copy(float* to, const float* from) {
  typedef float v4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  for (size_t i = 0; i + 4 <= W; i += 4)
    *reinterpret_cast<v4_unaligned*>(to + i) = *reinterpret_cast<const v4_unaligned*>(from + i);
  __builtin_memcpy(to + W / 4 * 4, from + W / 4 * 4, W % 4 * sizeof(float));
}

/** `panels` neighbours at once, where a step of k is contiguous: whole lines of the source are read. */
template <size_t W, size_t panels>
static void copy_panels(float* panel, const float* source, size_t source_k, size_t k) {
  for (size_t kk = 0; kk < k; kk++)
    for (size_t p = 0; p < panels; p++) copy<W>(panel + (p * k + kk) * W, source + kk * source_k + p * W);
}

/** rows x k elements of x into ceil(rows / W) panels. */
template <size_t W>
static void pack(float* panel, Strided x, size_t rows, size_t k) {
  size_t i = 0;
  if (x.column == 1) {
    for (; i + W <= rows; i += W) transpose(panel + i * k, W, x.at(i, 0).data, x.row, W, k);
  } else {
    for (; i + 4 * W <= rows; i += 4 * W) copy_panels<W, 4>(panel + i * k, x.at(i, 0).data, x.column, k);
    for (; i + W <= rows; i += W) copy_panels<W, 1>(panel + i * k, x.at(i, 0).data, x.column, k);
  }
  if (i == rows) return;
  for (size_t kk = 0; kk < k; kk++)
    for (size_t ii = 0; ii < W; ii++)
      panel[i * k + kk * W + ii] = i + ii < rows ? *x.at(i + ii, kk).data : 0.0f;
}

}  // namespace tabgpt::kernels::TABGPT_ISA
