/**
 * attention_backward (Dao 2023, algorithm 2): probabilities and masks are recomputed tile by tile from lse
 * and Philox.
 *
 * With P = exp(S - lse), f the dropout factors and delta = rowsum(dO * O):
 *   dV = (P f)^T dO,  dS = P (f (dO V^T) - delta),  dQ = dS K / sqrt(D),  dK = dS^T Q / sqrt(D).
 * A task is one head: it walks the tiles of keys, and for each the tiles of queries that see it, so that dQ
 * is summed in a fixed order without atomics.
 */
#include <cmath>

#include "attention_tile.hpp"
#include "isa.hpp"
#include "math.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

namespace {

/** One head's operands, laid out for the tile products; Dp = D rounded up to whole vectors. */
struct Scratch {
  float *q_t, *dout_t, *dq_t;  ///< [query tile][D][BQ]; q is scaled by 1 / sqrt(D)
  float *q, *dout;             ///< [T][Dp]
  float *k_t, *v_t;            ///< [D][BK]
  float *dk, *dv;              ///< [BK][Dp]
  float *p, *ds, *factors;     ///< [BK][BQ]
  float *lse, *delta;          ///< [T], padded to whole tiles

  Scratch(float* at, size_t padded_T, size_t D, size_t Dp) {
    const auto take = [&at](size_t n) { return at += n, at - n; };
    q_t = take(padded_T * D);
    dout_t = take(padded_T * D);
    dq_t = take(padded_T * D);
    q = take(padded_T * Dp);
    dout = take(padded_T * Dp);
    k_t = take(D * BK);
    v_t = take(D * BK);
    dk = take(BK * Dp);
    dv = take(BK * Dp);
    p = take(BK * BQ);
    ds = take(BK * BQ);
    factors = take(BK * BQ);
    lse = take(padded_T);
    delta = take(padded_T);
  }
};

/** to[t][Dp] = factor * from[t][D], zeros after D. */
void copy_padded(float* to, const float* from, size_t row, size_t n, size_t D, size_t Dp, float factor) {
  for (size_t t = 0; t < n; t++)
    for_vectors(D, [&](size_t d, auto count) {
      store(to + t * Dp + d, load_n(from + t * row + d, count) * splat(factor));
    });
}

/** scores and d(probabilities) of one tile -> dropped-out probabilities in p, dS in ds. */
void tile_gradients(float* p, float* ds, const float* factors, const float* lse, const float* delta,
                    size_t ahead, size_t nk) {
  for (size_t v = 0; v < BQ; v += lanes) {
    const vf log_sum = load(lse + v), mean = load(delta + v);
    const size_t seen = smaller(nk, v + lanes + ahead);  // by any of these queries
    for (size_t k = 0; k < seen; k++) {
      float *const pk = p + k * BQ + v, *const dsk = ds + k * BQ + v;
      vf probability = exp(load(pk) - log_sum);
      if (k > v + ahead) probability = select(hidden(k, v + ahead), splat(0.0f), probability);
      const vf factor = factors == nullptr ? splat(1.0f) : load(factors + k * BQ + v);
      store(pk, probability * factor);
      store(dsk, probability * (load(dsk) * factor - mean));
    }
    for (size_t k = seen; k < nk; k++) {
      store(p + k * BQ + v, splat(0.0f));
      store(ds + k * BQ + v, splat(0.0f));
    }
  }
}

}  // namespace

void attention_backward(Pool& pool, void* workspace, float* dqkv, const float* dout, const float* out,
                        const float* lse, const float* qkv, size_t B, size_t T, size_t H, size_t D,
                        const Dropout& dropout) {
  const size_t C = H * D, row = 3 * C, q_tiles = divide_up(T, BQ), padded_T = q_tiles * BQ,
               Dp = round_up(D, lanes);
  const float scale = 1.0f / std::sqrt(static_cast<float>(D));
  pool.parallel_for(B * H, [&](size_t head, size_t thread) {
    const size_t b = head / H, h = head % H;
    const Scratch s(static_cast<float*>(workspace) + thread * attention_scratch_floats(T, D), padded_T, D,
                    Dp);
    const float* const q = qkv + b * T * row + h * D;
    const float *const k = q + C, *const v = k + C;
    const float *const o = out + b * T * C + h * D, *const dy = dout + b * T * C + h * D;
    float *const dq = dqkv + b * T * row + h * D, *const dk = dq + C, *const dv = dk + C;

    for (size_t tile = 0; tile < q_tiles; tile++) {
      const size_t q0 = tile * BQ, nq = smaller(BQ, T - q0);
      transpose_in(s.q_t + q0 * D, q + q0 * row, row, nq, D, scale);
      transpose_in(s.dout_t + q0 * D, dy + q0 * C, C, nq, D, 1.0f);
    }
    copy_padded(s.q, q, row, T, D, Dp, scale);
    copy_padded(s.dout, dy, C, T, D, Dp, 1.0f);
    for (size_t i = 0; i < padded_T * D; i++) s.dq_t[i] = 0.0f;
    for (size_t t = 0; t < padded_T; t++) {
      vf products = splat(0.0f);
      if (t < T)
        for_vectors(D, [&](size_t d, auto n) {
          products = madd(load_n(dy + t * C + d, n), load_n(o + t * C + d, n), products);
        });
      s.delta[t] = sum(products);
      s.lse[t] = t < T ? lse[head * T + t] : 0.0f;
    }

    for (size_t k0 = 0; k0 < T; k0 += BK) {
      const size_t nk = smaller(BK, T - k0);
      transpose(s.k_t, BK, k + k0 * row, row, nk, D);
      transpose(s.v_t, BK, v + k0 * row, row, nk, D);
      for (size_t i = 0; i < nk * Dp; i++) s.dk[i] = s.dv[i] = 0.0f;
      for (size_t q0 = k0; q0 < T; q0 += BQ) {
        const size_t nq = smaller(BQ, T - q0), ahead = q0 - k0;
        score_product(nk, D, ahead, s.k_t, s.q_t + q0 * D, s.p);
        score_product(nk, D, ahead, s.v_t, s.dout_t + q0 * D, s.ds);
        if (dropout.threshold != 0) tile_factors(s.factors, head, T, q0, nq, k0, nk, dropout);
        tile_gradients(s.p, s.ds, dropout.threshold != 0 ? s.factors : nullptr, s.lse + q0, s.delta + q0,
                       ahead, nk);
        key_product(nk, nq, Dp, ahead, s.p, s.dout + q0 * Dp, s.dv);
        key_product(nk, nq, Dp, ahead, s.ds, s.q + q0 * Dp, s.dk);
        query_product<true>(nk, D, ahead, s.k_t, s.ds, s.dq_t + q0 * D);
      }
      for (size_t i = 0; i < nk; i++)
        for_vectors(D, [&](size_t d, auto n) {
          store_n(dk + (k0 + i) * row + d, load(s.dk + i * Dp + d), n);
          store_n(dv + (k0 + i) * row + d, load(s.dv + i * Dp + d), n);
        });
    }
    for (size_t q0 = 0; q0 < T; q0 += BQ)
      transpose(dq + q0 * row, row, s.dq_t + q0 * D, BQ, D, smaller(BQ, T - q0), scale);
  });
}

}  // namespace tabgpt::kernels::TABGPT_ISA
