/** Block sizes that the scratch plan needs, the same for every ISA; and small arithmetic on sizes. */
#pragma once

#include <cstddef>
#include <cstdint>

namespace tabgpt::kernels {

// GEMM: a panel of b (16 columns x 256 x 4 bytes = 16 KiB) stays in a 32 KiB L1; packed A and B (768 KiB, 1
// MiB) in L2/L3.
constexpr size_t gemm_m = 768, gemm_n = 1024, gemm_k = 256;
constexpr size_t panel_limit = 32;  ///< no ISA's register tile is wider or taller

// Attention: query lanes x keys of one score tile; 32 x 32 floats are 4 KiB.
constexpr size_t attention_queries = 32, attention_keys = 32;

// Sums over rows (bias, layer norm) and over all elements (norms) run over at most this many fixed chunks.
constexpr size_t row_chunks = 64;
constexpr size_t norm_chunks = 256;

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr size_t divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }
constexpr size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
constexpr size_t larger(size_t a, size_t b) { return a < b ? b : a; }

/** A fixed cut of [0, n) into equal chunks (the last may be shorter). Depends on n alone, never on the
 * threads. */
struct Chunks {
  size_t n, size, count;
  size_t begin(size_t chunk) const { return chunk * size; }
  size_t end(size_t chunk) const { return smaller(n, (chunk + 1) * size); }
};
/** Chunks of at least min_size elements, at most max_count of them, sizes a multiple of `multiple`. */
constexpr Chunks chunks(size_t n, size_t min_size, size_t max_count, size_t multiple = 1) {
  const size_t even = divide_up(n, max_count);
  const size_t size = round_up(even > min_size ? even : min_size, multiple);
  return {n, size, divide_up(n, size)};
}

/** Floats of scratch that one thread of attention uses (attention.cpp, attention_backward.cpp). */
constexpr uint64_t attention_scratch_floats(uint64_t T, uint64_t D) {
  const uint64_t padded_T = (T + attention_queries - 1) / attention_queries * attention_queries;
  const uint64_t padded_D = (D + 31) / 32 * 32;
  const uint64_t tile = attention_queries * attention_keys;
  return 5 * padded_T * padded_D + 4 * attention_keys * padded_D + 4 * tile + 4 * padded_T +
         8 * attention_queries + 64;
}

}  // namespace tabgpt::kernels
