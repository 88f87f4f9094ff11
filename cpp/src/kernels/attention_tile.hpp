/**
 * What attention's forward and backward share: a head's rows in qkv, transposed tiles, and masks.
 *
 * A score tile is stored with keys as rows and queries as lanes, S^T[key][query]. So softmax works down
 * columns without sums across lanes, K and V are read where they lie in qkv, and only Q (and dO) is
 * transposed.
 */
#pragma once

#include "blocks.hpp"
#include "masks.hpp"
#include "micro.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

constexpr size_t BQ = attention_queries, BK = attention_keys;
/** Below every score, and finite: exp(masked - anything) is 0. */
constexpr float masked_score = -3e38f;
static_assert(BQ % lanes == 0);

/** to[d][q] = factor * from[q][d] for n queries, zeros for the rest of the tile. */
static inline void transpose_in(float* to, const float* from, size_t row, size_t n, size_t D, float factor) {
  if (n < BQ)
    for (size_t i = 0; i < D * BQ; i++) to[i] = 0.0f;
  transpose(to, BQ, from, row, n, D, factor);
}

/** factors[key][query] of the dropout of attention's probabilities; element index ((b H + h) T + q) T + k. */
static inline void tile_factors(float* factors, size_t head, size_t T, size_t q0, size_t nq, size_t k0,
                                size_t nk, const Dropout& dropout) {
  float rows[4 * BK];
  for (size_t q = 0; q < BQ; q += 4) {
    for (size_t i = 0; i < 4; i++) {
      const uint64_t query =
          uint64_t{head} * T + q0 + (q + i < nq ? q + i : nq - 1);  // padding: any mask does
      dropout_factors(rows + i * BK, query * T + k0, nk, dropout);
    }
    transpose(factors + q, BQ, rows, BK, 4, nk);
  }
}

/** True for the lanes (queries q0 + lane ...) that may not see this key. */
TABGPT_INLINE vi hidden(size_t key, size_t query) {
  return lane_index() < static_cast<int32_t>(key) - static_cast<int32_t>(query);
}

}  // namespace tabgpt::kernels::TABGPT_ISA
