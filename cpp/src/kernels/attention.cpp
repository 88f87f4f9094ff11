/**
 * attention_forward, attention_decode: causal softmax(Q K^T / sqrt(D)) V with an online softmax (Dao 2023,
 * algorithm 1).
 *
 * A task is one tile of queries of one head; it walks the tiles of keys up to its last query. Nothing of size
 * T x T exists. lse is kept for the backward pass.
 */
#include <cmath>

#include "attention_tile.hpp"
#include "isa.hpp"
#include "math.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

namespace {

/** One key tile's scores -> unnormalised, dropped-out probabilities in place; running max and sum brought up
 * to date, and the output, unless this is its first tile, rescaled. */
void online_softmax(float* scores, const float* factors, float* out, float* largest, float* total,
                    size_t ahead, size_t nk, size_t D, bool first) {
  for (size_t v = 0; v < BQ; v += lanes) {
    const vf before = load(largest + v);
    vf top = before;
    const size_t seen = smaller(nk, v + lanes + ahead);  // by any of these queries
    for (size_t k = 0; k < seen; k++) {
      vf s = load(scores + k * BQ + v);
      if (k > v + ahead) {
        s = select(hidden(k, v + ahead), splat(masked_score), s);
        store(scores + k * BQ + v, s);
      }
      top = max(s, top);
    }
    vf sum = splat(0.0f);
    for (size_t k = 0; k < seen; k++) {
      const vf p = exp(load(scores + k * BQ + v) - top);
      sum = sum + p;
      store(scores + k * BQ + v, factors == nullptr ? p : p * load(factors + k * BQ + v));
    }
    for (size_t k = seen; k < nk; k++) store(scores + k * BQ + v, splat(0.0f));
    store(largest + v, top);
    if (first) {
      store(total + v, sum);
      continue;
    }
    const vf correction = exp(before - top);
    store(total + v, madd(load(total + v), correction, sum));
    for (size_t d = 0; d < D; d++) store(out + d * BQ + v, load(out + d * BQ + v) * correction);
  }
}

}  // namespace

void attention_forward(Pool& pool, void* workspace, float* out, float* lse, const float* qkv, size_t B,
                       size_t T, size_t H, size_t D, const Dropout& dropout) {
  const size_t C = H * D, q_tiles = divide_up(T, BQ);
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  // Of a head, the last query tiles first: they see the most keys, and long tasks should not come at the end.
  pool.parallel_for(B * H * q_tiles, [&](size_t task, size_t thread) {
    const size_t head = task / q_tiles, b = head / H, h = head % H;
    const size_t q0 = (q_tiles - 1 - task % q_tiles) * BQ, nq = smaller(BQ, T - q0);
    float* const q_t = static_cast<float*>(workspace) + thread * attention_scratch_floats(T, D);  // [D][BQ]
    float *const out_t = q_t + D * BQ, *const k_t = out_t + D * BQ, *const v_t = k_t + D * BK;    // [D][..]
    float *const scores = v_t + D * BK, *const factors = scores + BK * BQ;                        // [BK][BQ]
    float largest[BQ], total[BQ];
    const float* const q = qkv + b * T * 3 * C + h * D;
    const float *const k = q + C, *const v = k + C;

    transpose_in(q_t, q + q0 * 3 * C, 3 * C, nq, D, scale);
    for (size_t i = 0; i < BQ; i++) largest[i] = masked_score;
    for (size_t k0 = 0; k0 < q0 + nq; k0 += BK) {
      const size_t nk = smaller(BK, q0 + nq - k0), ahead = q0 - k0;
      transpose(k_t, BK, k + k0 * 3 * C, 3 * C, nk, D);
      transpose(v_t, BK, v + k0 * 3 * C, 3 * C, nk, D);
      score_product(nk, D, ahead, k_t, q_t, scores);
      if (dropout.threshold != 0) tile_factors(factors, head, T, q0, nq, k0, nk, dropout);
      online_softmax(scores, dropout.threshold != 0 ? factors : nullptr, out_t, largest, total, ahead, nk, D,
                     k0 == 0);
      if (k0 == 0) {
        query_product<false>(nk, D, ahead, v_t, scores, out_t);
      } else {
        query_product<true>(nk, D, ahead, v_t, scores, out_t);
      }
    }
    float* const y = out + (b * T + q0) * C + h * D;
    for (size_t i = 0; i < BQ; i += lanes) {
      const vf inverse = splat(1.0f) / load(total + i);
      for (size_t d = 0; d < D; d++) store(out_t + d * BQ + i, load(out_t + d * BQ + i) * inverse);
    }
    transpose(y, C, out_t, BQ, D, nq);
    for (size_t i = 0; i < nq; i++) lse[head * T + q0 + i] = largest[i] + std::log(total[i]);
  });
}

void attention_decode(Pool& pool, void* workspace, float* out, const float* q, const float* k_cache,
                      const float* v_cache, size_t n, size_t ctx, size_t H, size_t D) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  pool.parallel_for(H, [&](size_t h, size_t thread) {
    float* const scores = static_cast<float*>(workspace) + thread * attention_scratch_floats(ctx, D);
    const float *const k = k_cache + h * ctx * D, *const v = v_cache + h * ctx * D, *const query = q + h * D;
    float* const y = out + h * D;
    float largest = masked_score;
    // Four keys, and below four vectors of channels, at a time: chains of sums that do not wait for each
    // other.
    for (size_t t = 0; t < n; t += 4) {
      const size_t keys = smaller(4, n - t);
      const float* rows[4];
      for (size_t i = 0; i < 4; i++) rows[i] = k + (t + (i < keys ? i : 0)) * D;
      vf products[4] = {};
      for_vectors(D, [&](size_t d, auto count) {
        const vf q_d = load_n(query + d, count);
        for (size_t i = 0; i < 4; i++) products[i] = madd(q_d, load_n(rows[i] + d, count), products[i]);
      });
      for (size_t i = 0; i < keys; i++) {
        scores[t + i] = sum(products[i]) * scale;
        largest = scores[t + i] > largest ? scores[t + i] : largest;
      }
    }
    vf totals = splat(0.0f);
    for_vectors(n, [&](size_t t, auto count) {
      vf p = exp(load_n(scores + t, count) - splat(largest));
      if (count < lanes) p = select(lane_index() < static_cast<int32_t>(count), p, splat(0.0f));
      totals = totals + p;
      store_n(scores + t, p, count);
    });
    const vf inverse = splat(1.0f / sum(totals));
    size_t d = 0;
    for (; d + 4 * lanes <= D; d += 4 * lanes) {
      vf y_d[4] = {};
      for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < 4; j++)
          y_d[j] = madd(splat(scores[t]), load(v + t * D + d + j * lanes), y_d[j]);
      for (size_t j = 0; j < 4; j++) store(y + d + j * lanes, y_d[j] * inverse);
    }
    for_vectors(D - d, [&](size_t i, auto count) {
      vf y_d = splat(0.0f);
      for (size_t t = 0; t < n; t++) y_d = madd(splat(scores[t]), load_n(v + t * D + d + i, count), y_d);
      store_n(y + d + i, y_d * inverse, count);
    });
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
