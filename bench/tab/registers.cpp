/**
 * What this browser's code generator reaches without memory: a tile's multiply-adds in a loop that stores
 * nothing and loads no vector. matmul_tab.py compiles it with and without relaxed SIMD.
 *
 * Fused, a row's factor stays in a register: V8 cannot take half of one instruction out of the loop. Without
 * fusing, the products of constant factors would all be hoisted and only the additions measured, so each row
 * broadcasts its factor anew from 1 KiB that stays in the first-level cache, as a matrix product has to; and
 * each vector of the row is a value of its own, or V8 sees that columns share their products and skips them.
 *
 * sum_<rows>x<columns>(turns) returns the sum of the tile, which the caller compares with
 * turns * rows * columns * (factor * row) + the sum of 0, 1, ..., rows * columns - 1.
 */
#include <wasm_simd128.h>

namespace {

constexpr int lanes = 4, factors = 256;
// All equal, which no compiler may assume of writable memory.
volatile float the_factor = 0.5f;
volatile float the_row[4] = {0.001953125f, 0.001953125f, 0.001953125f, 0.001953125f};
float table[factors + 8];

template <int rows, int vectors>
float sum(unsigned turns) {
  for (float& factor : table) factor = the_factor;
  v128_t row[vectors];
  for (int j = 0; j < vectors; j++) row[j] = wasm_f32x4_splat(the_row[j]);
  v128_t tile[rows][vectors];
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++) {
      const float first = static_cast<float>((i * vectors + j) * lanes);
      tile[i][j] = wasm_f32x4_make(first, first + 1, first + 2, first + 3);
    }
#ifdef __wasm_relaxed_simd__
  const v128_t x = wasm_f32x4_splat(table[turns % factors]);
#endif
  for (unsigned k = 0; k < turns; k++) {
#ifndef __wasm_relaxed_simd__
    const float* const now = table + k * rows % factors;
#endif
    for (int i = 0; i < rows; i++) {
#ifndef __wasm_relaxed_simd__
      const v128_t x = wasm_v128_load32_splat(now + i);
#endif
      for (int j = 0; j < vectors; j++) {
#ifdef __wasm_relaxed_simd__
        tile[i][j] = wasm_f32x4_relaxed_madd(x, row[j], tile[i][j]);
#else
        tile[i][j] = wasm_f32x4_add(tile[i][j], wasm_f32x4_mul(x, row[j]));
#endif
      }
    }
  }
  float total = 0;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++)
      total += wasm_f32x4_extract_lane(tile[i][j], 0) + wasm_f32x4_extract_lane(tile[i][j], 1) +
               wasm_f32x4_extract_lane(tile[i][j], 2) + wasm_f32x4_extract_lane(tile[i][j], 3);
  return total;
}

}  // namespace

extern "C" {
float sum_4x8(unsigned turns) { return sum<4, 2>(turns); }
float sum_6x8(unsigned turns) { return sum<6, 2>(turns); }
float sum_4x16(unsigned turns) { return sum<4, 4>(turns); }
}
