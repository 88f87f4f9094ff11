/**
 * Philox4x32-10 (Salmon et al. 2011): the only source of randomness, the same in every language.
 *
 * Key (seed, 0). Element i of a stream is word i mod 4 of the block whose counter is
 * (i div 4 low, i div 4 high, c2, c3); DESIGN's table says what c2 and c3 hold.
 */
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tabgpt::philox {

struct Block {
  uint32_t word[4];
};

constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;

/** Ten rounds on counter (c0, c1, c2, c3) with key (k0, k1). */
static inline Block block(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1 = 0) {
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = uint64_t{multiplier0} * c0, p1 = uint64_t{multiplier1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += weyl0;
    k1 += weyl1;
  }
  return {{c0, c1, c2, c3}};
}

/** Block number `index` of a stream: its elements 4 * index to 4 * index + 3. */
static inline Block stream_block(uint32_t seed, uint32_t c2, uint32_t c3, uint64_t index) {
  return block(static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), c2, c3, seed);
}

static inline uint32_t element(uint32_t seed, uint32_t c2, uint32_t c3, uint64_t i) {
  return stream_block(seed, c2, c3, i / 4).word[i % 4];
}

/** In [0, 1), a multiple of 2^-24. */
static inline double uniform(uint32_t word) { return (word >> 8) * 0x1p-24; }

/**
 * out[i] = float(std * z[4 * first_block + i]), z standard normal: Box-Muller in float64 on the words (0,1)
 * and (2,3) of a block.
 */
static inline void normals(float* out, size_t n, double std, uint32_t seed, uint32_t c2, uint32_t c3,
                           uint64_t first_block = 0) {
  constexpr double two_pi = 6.283185307179586476925;
  for (size_t i = 0; i < n; i += 4) {
    const Block b = stream_block(seed, c2, c3, first_block + i / 4);
    for (size_t pair = 0; pair < 2; pair++) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(b.word[2 * pair])));
      const double angle = two_pi * uniform(b.word[2 * pair + 1]);
      const size_t j = i + 2 * pair;
      if (j < n) out[j] = static_cast<float>(std * (radius * std::cos(angle)));
      if (j + 1 < n) out[j + 1] = static_cast<float>(std * (radius * std::sin(angle)));
    }
  }
}

}  // namespace tabgpt::philox
