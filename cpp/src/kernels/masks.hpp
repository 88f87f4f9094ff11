/** Dropout masks, eight Philox blocks at a time so that the compiler can run the rounds in vector registers.
 */
#pragma once

#include "../philox.hpp"
#include "kernels.hpp"
#include "simd.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

constexpr size_t mask_group = 32;  ///< elements of one call of philox_group

/** The 32 elements of blocks first_block to first_block + 7. */
TABGPT_INLINE void philox_group(uint32_t* out, uint64_t first_block, const Dropout& d) {
  uint32_t c0[8], c1[8], c2[8], c3[8];
  for (uint32_t j = 0; j < 8; j++) {
    const uint64_t index = first_block + j;
    c0[j] = static_cast<uint32_t>(index);
    c1[j] = static_cast<uint32_t>(index >> 32);
    c2[j] = d.c2;
    c3[j] = d.c3;
  }
  uint32_t k0 = d.seed, k1 = 0;
  for (int round = 0; round < 10; round++) {
    for (int j = 0; j < 8; j++) {
      const uint64_t p0 = uint64_t{philox::multiplier0} * c0[j], p1 = uint64_t{philox::multiplier1} * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c1[j] = static_cast<uint32_t>(p1);
      c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += philox::weyl0;
    k1 += philox::weyl1;
  }
  for (int j = 0; j < 8; j++) {
    out[4 * j] = c0[j];
    out[4 * j + 1] = c1[j];
    out[4 * j + 2] = c2[j];
    out[4 * j + 3] = c3[j];
  }
}

/** factors[i] = scale where element first + i is kept, else 0, for i in [0, n). */
static inline void dropout_factors(float* factors, uint64_t first, size_t n, const Dropout& d) {
  uint32_t words[mask_group];
  size_t skip = static_cast<size_t>(first % 4);
  uint64_t block = first / 4;
  for (size_t done = 0; done < n; block += mask_group / 4) {
    philox_group(words, block, d);
    const size_t count = n - done < mask_group - skip ? n - done : mask_group - skip;
    for (size_t i = 0; i < count; i++) factors[done + i] = words[skip + i] >= d.threshold ? d.scale : 0.0f;
    done += count;
    skip = 0;
  }
}

}  // namespace tabgpt::kernels::TABGPT_ISA
