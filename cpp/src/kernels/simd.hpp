/**
 * One float vector, as wide as the target this file is compiled for: 8 lanes with AVX2 and FMA, else 4
 * (SSE2, NEON, WASM SIMD with or without relaxed FMA; the compiler splits the 4 where there is no SIMD).
 *
 * x86 compiles the kernels twice, so everything here lives in a namespace of the target. madd is the only
 * place where a product may be fused with its sum (the kernels are built with -ffp-contract=off).
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define TABGPT_ISA avx2
#define TABGPT_ISA_NAME "avx2"
#define TABGPT_LANES 8
#else
#define TABGPT_ISA base
#define TABGPT_LANES 4
#if defined(__aarch64__)
#include <arm_neon.h>
#define TABGPT_ISA_NAME "neon"
#elif defined(__wasm_relaxed_simd__)
#define TABGPT_ISA_NAME "wasm-relaxed"
#elif defined(__wasm_simd128__)
#define TABGPT_ISA_NAME "wasm-simd"
#elif defined(__wasm__)
#define TABGPT_ISA_NAME "wasm-scalar"
#else
#define TABGPT_ISA_NAME "generic"
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif
#endif

#define TABGPT_INLINE static inline __attribute__((always_inline))

namespace tabgpt::kernels::TABGPT_ISA {

constexpr size_t lanes = TABGPT_LANES;
typedef float vf __attribute__((vector_size(TABGPT_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(TABGPT_LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(TABGPT_LANES * 4), aligned(4), may_alias));

TABGPT_INLINE vf load(const float* p) { return *reinterpret_cast<const vf_unaligned*>(p); }
TABGPT_INLINE void store(float* p, vf x) { *reinterpret_cast<vf_unaligned*>(p) = x; }

#if TABGPT_LANES == 8
TABGPT_INLINE vf splat(float x) { return vf{x, x, x, x, x, x, x, x}; }
TABGPT_INLINE vi lane_index() { return vi{0, 1, 2, 3, 4, 5, 6, 7}; }
#else
TABGPT_INLINE vf splat(float x) { return vf{x, x, x, x}; }
TABGPT_INLINE vi lane_index() { return vi{0, 1, 2, 3}; }
#endif

/** The first n < lanes elements, zeros after them; so that tails run through the same arithmetic. */
TABGPT_INLINE vf load_n(const float* p, size_t n) {
  float buffer[lanes] = {};
  for (size_t i = 0; i < n; i++) buffer[i] = p[i];
  return load(buffer);
}
TABGPT_INLINE void store_n(float* p, vf x, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = x[i];
}

using Full = std::integral_constant<size_t, lanes>;
TABGPT_INLINE vf load_n(const float* p, Full) { return load(p); }
TABGPT_INLINE void store_n(float* p, vf x, Full) { store(p, x); }

/** a * b + c, fused where the target can. */
TABGPT_INLINE vf madd(vf a, vf b, vf c) {
#if TABGPT_LANES == 8
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__wasm_relaxed_simd__)
  return (vf)__builtin_wasm_relaxed_madd_f32x4(a, b, c);
#elif defined(__aarch64__)
  return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

TABGPT_INLINE vf sqrt(vf x) {
#if TABGPT_LANES == 8
  return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (vf)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
  return (vf)vsqrtq_f32((float32x4_t)x);
#elif defined(__wasm_simd128__)
  return (vf)wasm_f32x4_sqrt((v128_t)x);
#else
  return vf{__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
#endif
}

TABGPT_INLINE vf select(vi mask, vf a, vf b) { return mask ? a : b; }
/** a where a > b, else b: a NaN in `a` is dropped, one in `b` is kept. */
TABGPT_INLINE vf max(vf a, vf b) { return a > b ? a : b; }
TABGPT_INLINE vf min(vf a, vf b) { return a < b ? a : b; }

/** Sum of the lanes, always in the same order. */
TABGPT_INLINE float sum(vf x) {
#if TABGPT_LANES == 8
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
#else
  return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}
TABGPT_INLINE float max_lane(vf x) {
  float m = x[0];
  for (size_t i = 1; i < lanes; i++) m = x[i] > m ? x[i] : m;
  return m;
}

/** to[j][i] = factor * from[i][j] for i, j < 4; rows are `to_row` and `from_row` apart. */
TABGPT_INLINE void transpose4(float* to, size_t to_row, const float* from, size_t from_row,
                              float factor = 1.0f) {
  typedef float v4 __attribute__((vector_size(16)));
  typedef float v4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  v4 r[4];
  for (size_t i = 0; i < 4; i++) r[i] = *reinterpret_cast<const v4_unaligned*>(from + i * from_row) * factor;
  const v4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
           b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const v4 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
           d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const v4 columns[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                         __builtin_shufflevector(c, d, 0, 1, 4, 5),
                         __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (size_t j = 0; j < 4; j++) *reinterpret_cast<v4_unaligned*>(to + j * to_row) = columns[j];
}

/** The same for i < 2: the last rows of a tile of 6. */
TABGPT_INLINE void transpose2(float* to, size_t to_row, const float* from, size_t from_row,
                              float factor = 1.0f) {
  typedef float v4 __attribute__((vector_size(16)));
  typedef int64_t v2 __attribute__((vector_size(16)));
  typedef float v4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  typedef int64_t pair_unaligned __attribute__((aligned(4), may_alias));
  const v4 a = *reinterpret_cast<const v4_unaligned*>(from) * factor,
           b = *reinterpret_cast<const v4_unaligned*>(from + from_row) * factor;
  const v2 low = (v2)__builtin_shufflevector(a, b, 0, 4, 1, 5),
           high = (v2)__builtin_shufflevector(a, b, 2, 6, 3, 7);
  *reinterpret_cast<pair_unaligned*>(to) = low[0];
  *reinterpret_cast<pair_unaligned*>(to + to_row) = low[1];
  *reinterpret_cast<pair_unaligned*>(to + 2 * to_row) = high[0];
  *reinterpret_cast<pair_unaligned*>(to + 3 * to_row) = high[1];
}

/** to[j][i] = factor * from[i][j] for i < rows, j < columns. */
static inline void transpose(float* to, size_t to_row, const float* from, size_t from_row, size_t rows,
                             size_t columns, float factor = 1.0f) {
  typedef float v4 __attribute__((vector_size(16)));
  typedef float v4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  const size_t whole = columns / 4 * 4;
  for (size_t i = 0, step; i < rows; i += step) {
    step = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
    const float* const source = from + i * from_row;
    size_t j = 0;
    if (step == 4) {
      for (; j < whole; j += 4) transpose4(to + j * to_row + i, to_row, source + j, from_row, factor);
    } else if (step == 2) {
      for (; j < whole; j += 4) transpose2(to + j * to_row + i, to_row, source + j, from_row, factor);
    } else {
      for (; j < whole; j += 4) {
        const v4 x = *reinterpret_cast<const v4_unaligned*>(source + j) * factor;
        for (size_t jj = 0; jj < 4; jj++) to[(j + jj) * to_row + i] = x[jj];
      }
    }
    for (; j < columns; j++)
      for (size_t ii = 0; ii < step; ii++) to[j * to_row + i + ii] = factor * source[ii * from_row + j];
  }
}

/** f(i, n) for each vector of [0, count): n is lanes, but for a shorter last one. */
template <class F>
TABGPT_INLINE void for_vectors(size_t count, F&& f) {
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) f(i, Full{});
  if (i < count) f(i, count - i);
}

}  // namespace tabgpt::kernels::TABGPT_ISA
