/**
 * What attention's forward and backward share: transposed tiles, their products, and masks.
 *
 * A score tile is stored with keys as rows and queries as lanes, S^T[key][query], so that softmax works down
 * columns without sums across lanes. The other tiles are transposed too, X^T[d][row], out of qkv, whose rows
 * may lie a power of two apart and so share a few cache sets.
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

/** The terms [begin, end) of a sum. */
struct Terms {
  size_t begin, end;
};

template <size_t NV, size_t a_row, size_t a_k, bool accumulate, size_t MR>
TABGPT_INLINE void block_product(size_t rows, Terms k, const float* a, const float* b, size_t ldb, float* c,
                                 size_t ldc) {
  if (rows == MR) {
    put(multiply<MR, NV>(k.end - k.begin, a + k.begin * a_k, a_row, a_k, b + k.begin * ldb, ldb), c, ldc,
        accumulate);
  } else if constexpr (MR > 1) {
    block_product<NV, a_row, a_k, accumulate, MR - 1>(rows, k, a, b, ldb, c, ldc);
  }
}

/**
 * c[i][j] (+)= sum over k of a[i * a_row + k * a_k] b[k][j], i < M, j < N; N is a multiple of lanes. A block
 * of rows from i and `columns` columns from j takes the terms that `terms(i, j, columns)` names: causality
 * makes the others 0. Without any it is left as it is.
 */
template <size_t a_row, size_t a_k, bool accumulate, class Function>
static inline void tile_product(size_t M, size_t N, const float* a, const float* b, size_t ldb, float* c,
                                size_t ldc, Function terms) {
  const size_t groups = divide_up(M, tile_rows);  // of even size: a short last one would starve the FMA units
  for (size_t j = 0; j < N;) {
    const bool wide = N - j >= tile_columns;
    const size_t columns = wide ? tile_columns : lanes;
    for (size_t g = 0; g < groups; g++) {
      const size_t i = g * M / groups, rows = (g + 1) * M / groups - i;
      const Terms k = terms(i, j, columns);
      if (k.begin >= k.end) continue;
      const float* const ai = a + i * a_row;
      float* const cij = c + i * ldc + j;
      if (wide) {
        block_product<tile_vectors, a_row, a_k, accumulate, tile_rows>(rows, k, ai, b + j, ldb, cij, ldc);
      } else {
        block_product<1, a_row, a_k, accumulate, tile_rows>(rows, k, ai, b + j, ldb, cij, ldc);
      }
    }
    j += columns;
  }
}

// Query j of a tile sees key i of another where i <= j + ahead, ahead = q0 - k0. The tiles are as long as
// wide, so ahead is not below 0, and only on the diagonal (ahead = 0) is any pair hidden.
static_assert(BQ == BK);

/** s[key][query] = sum over d of x[d][key] y[d][query]; blocks in which no pair is seen stay unset. */
static inline void score_product(size_t nk, size_t D, size_t ahead, const float* x, const float* y,
                                 float* s) {
  tile_product<1, BK, false>(nk, BQ, x, y, BQ, s, BQ, [=](size_t key, size_t query, size_t queries) {
    return Terms{0, key < query + queries + ahead ? D : 0};
  });
}

/** y[d][query] (+)= sum over keys of x[d][key] w[key][query]. */
template <bool accumulate>
static inline void query_product(size_t nk, size_t D, size_t ahead, const float* x, const float* w,
                                 float* y) {
  tile_product<BK, 1, accumulate>(D, BQ, x, w, BQ, y, BQ, [=](size_t, size_t query, size_t queries) {
    return Terms{0, smaller(nk, query + queries + ahead)};
  });
}

/** y[key][Dp] += sum over queries of w[key][query] x[query][Dp]. */
static inline void key_product(size_t nk, size_t nq, size_t Dp, size_t ahead, const float* w, const float* x,
                               float* y) {
  tile_product<BQ, 1, true>(nk, Dp, w, x, Dp, y, Dp, [=](size_t key, size_t, size_t) {
    return Terms{key > ahead ? key - ahead : 0, nq};
  });
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
