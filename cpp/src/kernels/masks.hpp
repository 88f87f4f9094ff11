/**
 * Dropout masks: several Philox blocks at a time in vector registers.
 *
 * A 64-bit lane carries one 32-bit word of one block, and what lies above the word is never looked at, so
 * that a round is two 32 x 32 -> 64 bit products, two shifts and four xors. philox.hpp is the readable
 * version.
 */
#pragma once

#include "../philox.hpp"
#include "kernels.hpp"
#include "simd.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

constexpr size_t mask_group = 32;  ///< elements that one call makes

constexpr size_t wide_lanes = lanes / 2;
typedef uint64_t vu64 __attribute__((vector_size(TABGPT_LANES * 4)));
typedef uint32_t vu32 __attribute__((vector_size(TABGPT_LANES * 4)));

/** Product of the low 32 bits of each lane. */
TABGPT_INLINE vu64 multiply_low(vu64 a, vu64 b) {
#if TABGPT_LANES == 8
  return (vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (vu64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
  return (vu64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#elif defined(__wasm_simd128__)
  const v128_t words = wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 0, 2, 0, 2);
  return (vu64)wasm_u64x2_extmul_low_u32x4(words, wasm_i32x4_shuffle((v128_t)b, (v128_t)b, 0, 2, 0, 2));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/** words[4 j + i] = word i of block first_block + j, for 2 * wide_lanes blocks: two vectors of each, to hide
 * latency. */
TABGPT_INLINE void philox_blocks(uint32_t* words, uint64_t first_block, const Dropout& d) {
  const vu64 zero = {}, multiplier0 = zero + philox::multiplier0, multiplier1 = zero + philox::multiplier1;
  uint64_t index[2 * wide_lanes];
  for (size_t j = 0; j < 2 * wide_lanes; j++) index[j] = first_block + j;
  vu64 c0[2], c1[2], c2[2], c3[2];
  __builtin_memcpy(c0, index, sizeof c0);
  for (size_t g = 0; g < 2; g++) {
    c1[g] = c0[g] >> 32;
    c2[g] = zero + d.c2;
    c3[g] = zero + d.c3;
  }
  uint32_t k0 = d.seed, k1 = 0;
  for (int round = 0; round < 10; round++) {
    for (size_t g = 0; g < 2; g++) {
      const vu64 p0 = multiply_low(c0[g], multiplier0), p1 = multiply_low(c2[g], multiplier1);
      c0[g] = (p1 >> 32) ^ c1[g] ^ (zero + k0);
      c2[g] = (p0 >> 32) ^ c3[g] ^ (zero + k1);
      c1[g] = p1;
      c3[g] = p0;
    }
    k0 += philox::weyl0;
    k1 += philox::weyl1;
  }
  for (size_t g = 0; g < 2; g++) {
    const vu64 low = (c0[g] & 0xffffffffu) | (c1[g] << 32), high = (c2[g] & 0xffffffffu) | (c3[g] << 32);
#if TABGPT_LANES == 8
    const vu64 first = __builtin_shufflevector(low, high, 0, 4, 1, 5);
    const vu64 second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
    const vu64 first = __builtin_shufflevector(low, high, 0, 2),
               second = __builtin_shufflevector(low, high, 1, 3);
#endif
    __builtin_memcpy(words + (2 * g) * lanes, &first, sizeof first);
    __builtin_memcpy(words + (2 * g + 1) * lanes, &second, sizeof second);
  }
}

/** factors[i] = scale where element 4 * first_block + i is kept, else 0; mask_group of them. */
static inline void factor_group(float* factors, uint64_t first_block, const Dropout& d) {
  const vu32 zero = {}, threshold = zero + d.threshold;
  uint32_t words[4 * lanes];
  for (size_t i = 0; i < mask_group; i += 4 * lanes) {
    philox_blocks(words, first_block + i / 4, d);
    for (size_t j = 0; j < 4 * lanes; j += lanes) {
      vu32 word;
      __builtin_memcpy(&word, words + j, sizeof word);
      store(factors + i + j, select((vi)(word >= threshold), splat(d.scale), splat(0.0f)));
    }
  }
}

/** factors[i] for element first + i, i in [0, n). */
static inline void dropout_factors(float* factors, uint64_t first, size_t n, const Dropout& d) {
  float group[mask_group];
  size_t skip = static_cast<size_t>(first % 4);
  uint64_t block = first / 4;
  for (size_t done = 0; done < n; block += mask_group / 4) {
    const size_t count = n - done < mask_group - skip ? n - done : mask_group - skip;
    if (count == mask_group) {
      factor_group(factors + done, block, d);
    } else {
      factor_group(group, block, d);
      for (size_t i = 0; i < count; i++) factors[done + i] = group[skip + i];
    }
    done += count;
    skip = 0;
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
