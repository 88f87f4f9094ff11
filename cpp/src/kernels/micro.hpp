/**
 * The register tile: c[MR, NV * lanes] (+)= sum over k of a[i, k] b[k, j], one pass over k in order.
 *
 * `a` is read one element at a time (broadcast) at a[i * a_row + k * a_k], so packed panels, rows and
 * transposed rows all do; `b` is read in vectors at b[k * ldb + j]. The GEMM's packed panels and attention's
 * tiles use the same code.
 */
#pragma once

#include "simd.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

// Rows and vectors of the tile, by the number of registers: MR * NV accumulators, NV of b, one broadcast of
// a.
#if TABGPT_LANES == 8
constexpr size_t tile_rows = 6, tile_vectors = 2;  // 6 x 16: 12 + 2 + 1 of 16 ymm
#elif defined(__aarch64__)
constexpr size_t tile_rows = 6, tile_vectors = 4;  // 6 x 16: 24 + 4 + 1 of 32
#elif defined(__wasm_relaxed_simd__)
constexpr size_t tile_rows = 6, tile_vectors = 2;  // 6 x 8: fused, so no register for the product
#else
constexpr size_t tile_rows = 4,
                 tile_vectors = 2;  // 4 x 8: V8 and SSE2 have 16 registers and need one for the product
#endif
constexpr size_t tile_columns = tile_vectors * lanes;

template <size_t MR, size_t NV>
struct Tile {
  vf sum[MR][NV];
};

template <size_t MR, size_t NV>
TABGPT_INLINE Tile<MR, NV> multiply(size_t K, const float* a, size_t a_row, size_t a_k, const float* b,
                                    size_t ldb) {
  Tile<MR, NV> t;
  for (size_t i = 0; i < MR; i++)
    for (size_t j = 0; j < NV; j++) t.sum[i][j] = splat(0.0f);
  for (size_t k = 0; k < K; k++) {
    vf row[NV];
    for (size_t j = 0; j < NV; j++) row[j] = load(b + k * ldb + j * lanes);
    for (size_t i = 0; i < MR; i++) {
      const vf x = splat(a[i * a_row + k * a_k]);
      for (size_t j = 0; j < NV; j++) t.sum[i][j] = madd(x, row[j], t.sum[i][j]);
    }
  }
  return t;
}

/** Hides what is known of p, so that loads at constant distances from it stay loads at constant distances. */
TABGPT_INLINE void forget(const float*& p) {
#if defined(__wasm__)
  asm volatile("" : "+r"(p));
#else
  (void)p;
#endif
}

/**
 * The same from packed panels, a[K][MR] and b[K][NV * lanes]: what a product spends its time in.
 *
 * Left alone, LLVM counts k and multiplies it anew into every address; unrolled in one basic block, it sorts
 * the sums of one accumulator together, for which V8 has not the registers. The way out between two steps
 * keeps them apart, and V8's look for interrupts comes once in four.
 */
template <size_t MR, size_t NV>
TABGPT_INLINE Tile<MR, NV> multiply_packed(size_t K, const float* a, const float* b) {
  Tile<MR, NV> t;
  for (size_t i = 0; i < MR; i++)
    for (size_t j = 0; j < NV; j++) t.sum[i][j] = splat(0.0f);
  if (K == 0) return t;
  const float* const end = b + K * NV * lanes;
  const auto step = [&]() __attribute__((always_inline)) {
    forget(a);
    forget(b);
    vf row[NV];
    for (size_t j = 0; j < NV; j++) row[j] = load(b + j * lanes);
    for (size_t i = 0; i < MR; i++) {
      const vf x = splat(a[i]);
      for (size_t j = 0; j < NV; j++) t.sum[i][j] = madd(x, row[j], t.sum[i][j]);
    }
    a += MR;
    b += NV * lanes;
    return b != end;
  };
  while (step() && step() && step() && step()) {
  }
  return t;
}

template <size_t MR, size_t NV>
TABGPT_INLINE void put(const Tile<MR, NV>& t, float* c, size_t ldc, bool accumulate) {
  for (size_t i = 0; i < MR; i++)
    for (size_t j = 0; j < NV; j++) {
      float* const p = c + i * ldc + j * lanes;
      store(p, accumulate ? load(p) + t.sum[i][j] : t.sum[i][j]);
    }
}

template <size_t NV, size_t MR>
TABGPT_INLINE void multiply_rows(size_t rows, size_t K, const float* a, size_t a_row, size_t a_k,
                                 const float* b, size_t ldb, float* c, size_t ldc, bool accumulate) {
  if (rows == MR) {
    put(multiply<MR, NV>(K, a, a_row, a_k, b, ldb), c, ldc, accumulate);
  } else if constexpr (MR > 1) {
    multiply_rows<NV, MR - 1>(rows, K, a, a_row, a_k, b, ldb, c, ldc, accumulate);
  }
}

/** A small product in cache. N is a multiple of lanes; any M and K; nothing outside the operands is read. */
static inline void small_matmul(size_t M, size_t N, size_t K, const float* a, size_t a_row, size_t a_k,
                                const float* b, size_t ldb, float* c, size_t ldc, bool accumulate) {
  for (size_t j = 0; j < N;) {
    const bool wide = N - j >= tile_columns;
    for (size_t i = 0; i < M; i += tile_rows) {
      const size_t rows = M - i < tile_rows ? M - i : tile_rows;
      const float* const ai = a + i * a_row;
      float* const cij = c + i * ldc + j;
      if (wide) {
        multiply_rows<tile_vectors, tile_rows>(rows, K, ai, a_row, a_k, b + j, ldb, cij, ldc, accumulate);
      } else {
        multiply_rows<1, tile_rows>(rows, K, ai, a_row, a_k, b + j, ldb, cij, ldc, accumulate);
      }
    }
    j += wide ? tile_columns : lanes;
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
