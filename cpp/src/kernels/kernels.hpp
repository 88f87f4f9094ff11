/**
 * The kernels, as the model calls them. Float32, row-major, contiguous.
 *
 * B batch, T tokens, C = H * D channels, V vocabulary; R = B * T rows. The
 * gradient of x is dx. Every function spreads its work over the pool on a tile
 * grid that does not depend on the number of threads, and never splits a sum
 * between threads in an order that could change: results are bit-identical for
 * any pool. Kernels know no model and allocate nothing; scratch is the caller's.
 */
#pragma once

#include <cstddef>
#include <cstdint>

namespace tabgpt {

class Pool;  // threads.hpp

/** Philox stream of one dropout site (DESIGN: keep where u32 >= threshold). threshold 0 is no dropout. */
struct Dropout {
  uint32_t seed = 0;
  uint32_t c2 = 0;         ///< optimizer step
  uint32_t c3 = 0;         ///< use, micro-step, layer, site
  uint32_t threshold = 0;  ///< floor(p * 2^32)
  float scale = 1.0f;      ///< 1 / (1 - p)
};

enum class Trans { NN, NT, TN };
enum class Gelu { none, tanh, erf };

/** y = gelu(AB + bias) etc., applied to a finished tile while it is in cache. */
struct Epilogue {
  const float* bias = nullptr;  ///< [N]
  float* pre_gelu = nullptr;    ///< [M,N], receives AB + bias when gelu != none
  float* slope = nullptr;       ///< [M,N], receives gelu'(AB + bias), for the way back
  Gelu gelu = Gelu::none;
  const Dropout* dropout = nullptr;  ///< element index = row * N + column
  const float* residual = nullptr;   ///< [M,N], added last
  float* pre_factor = nullptr;       ///< [M,N], receives what comes before `factor`
  const float* factor = nullptr;     ///< [M,N], multiplied in last (not with the others)
  bool accumulate = false;           ///< out += instead of out = (alone; not with the others)
};

namespace kernels {

/** The kernels in use: "avx2", "neon", "generic", "wasm-scalar", "wasm-simd", "wasm-relaxed".
 * TABGPT_ISA=generic in the environment, read once, keeps an x86 machine from its AVX2 kernels. */
const char* isa();

/**
 * Bytes of scratch, 64-byte aligned, that every kernel here can work in when no call is larger than these
 * sizes: the largest M, N, K of any matmul (a layer norm's C counts as an N), T and head_dim of any
 * attention. The same for every ISA, so that one build can plan for another.
 */
uint64_t workspace_bytes(size_t n_threads, size_t max_m, size_t max_n, size_t max_k, size_t max_T,
                         size_t head_dim);

/**
 * out[M,N] = op(A) op(B). NN: A[M,K] B[K,N]. NT: A[M,K] B[N,K]. TN: A[K,M] B[K,N].
 * Packed and register-tiled; K is never split between threads.
 */
void matmul(Pool&, void* workspace, Trans, size_t M, size_t N, size_t K, const float* A, const float* B,
            float* out, const Epilogue& = {});
/** db[N] += column sums of dy[M,N], over fixed row chunks. */
void bias_backward(Pool&, void* workspace, float* db, const float* dy, size_t M, size_t N);

void layernorm_forward(Pool&, float* out, float* mean, float* rstd, const float* x, const float* weight,
                       const float* bias, size_t R, size_t C);
/** dx += (the residual path adds there too); dweight, dbias +=. */
void layernorm_backward(Pool&, void* workspace, float* dx, float* dweight, float* dbias, const float* dy,
                        const float* x, const float* weight, const float* mean, const float* rstd, size_t R,
                        size_t C);

void gelu_forward(Pool&, float* out, const float* x, size_t n, Gelu);
/** dx = dout * gelu'(x); dx may be dout. */
void gelu_backward(Pool&, float* dx, const float* dout, const float* x, size_t n, Gelu);

/** y = x masked and scaled; y may be x. */
void dropout_apply(Pool&, float* y, const float* x, size_t n, const Dropout&);

/** qkv[B,T,3C] -> out[B,T,C], lse[B,H,T] (natural log, of scaled scores). Causal, online softmax, no [T,T].
 */
void attention_forward(Pool&, void* workspace, float* out, float* lse, const float* qkv, size_t B, size_t T,
                       size_t H, size_t D, const Dropout&);
/** dqkv[B,T,3C] = ... ; probabilities and dropout masks are recomputed from lse and Philox. */
void attention_backward(Pool&, void* workspace, float* dqkv, const float* dout, const float* out,
                        const float* lse, const float* qkv, size_t B, size_t T, size_t H, size_t D,
                        const Dropout&);
/** One new query row per (sequence = 1): q[C], cache k,v [H, ctx, D] holding n positions. */
void attention_decode(Pool&, void* workspace, float* out, const float* q, const float* k_cache,
                      const float* v_cache, size_t n, size_t ctx, size_t H, size_t D);

/** x = dropout(wte[token] + wpe[t]): out[B,T,C]. position0 is t of the first column (decoding). */
void embedding_forward(Pool&, float* out, const uint32_t* tokens, const float* wte, const float* wpe,
                       size_t B, size_t T, size_t C, size_t position0, const Dropout&);
/** dwte[V,C] += , dwpe[T,C] += ; dx already passed the embedding's dropout. Deterministic. */
void embedding_backward(Pool&, void* workspace, float* dwte, float* dwpe, const float* dx,
                        const uint32_t* tokens, size_t B, size_t T, size_t C);

/** losses[R] = lse(logits[r]) - logits[r][target]. */
void cross_entropy_forward(Pool&, float* losses, const float* logits, const uint32_t* targets, size_t R,
                           size_t V);
/** In place: logits -> dlogits = (softmax - onehot) * scale. */
void cross_entropy_backward(Pool&, float* logits, const uint32_t* targets, size_t R, size_t V, float scale);

/** Sum of squares in float64 over fixed chunks; not finite if any element is not. */
double sum_of_squares(Pool&, void* workspace, const float* x, size_t n);

/** Doubles: 1 - beta2 taken from a float32 beta2 would be off by 1e-6. */
struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double bias_correction1, bias_correction2;  ///< 1 - beta^t
  double grad_scale;                          ///< the clip coefficient
};
/** Decoupled weight decay (Loshchilov & Hutter 2019, alg. 2); p, m, v in place. */
void adamw(Pool&, float* p, float* m, float* v, const float* g, size_t n, const AdamW&);

}  // namespace kernels
}  // namespace tabgpt
