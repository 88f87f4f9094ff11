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

/** rows x k elements of x into ceil(rows / W) panels. */
template <size_t W>
static void pack(float* panel, Strided x, size_t rows, size_t k) {
  for (size_t i0 = 0; i0 < rows; i0 += W, panel += W * k) {
    const size_t w = smaller(W, rows - i0);
    const float* const source = x.data + i0 * x.row;
    if (w < W)
      for (size_t i = 0; i < W * k; i++) panel[i] = 0.0f;
    if (x.column == 1) {
      transpose(panel, W, source, x.row, w, k);
    } else if (w == W) {
      for (size_t kk = 0; kk < k; kk++)
        __builtin_memcpy(panel + kk * W, source + kk * x.column, W * sizeof(float));
    } else {
      for (size_t kk = 0; kk < k; kk++)
        for (size_t i = 0; i < w; i++) panel[kk * W + i] = source[i * x.row + kk * x.column];
    }
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
