/** The public kernels: each call goes to the table of the best ISA that this machine runs. Compiled without
 * AVX2. */
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "isa.hpp"

namespace tabgpt::kernels {

namespace {

const Table& choose() {
#if defined(__x86_64__)
  const char* const wanted = std::getenv("TABGPT_ISA");
  const bool generic = wanted != nullptr && std::strcmp(wanted, "generic") == 0;
  if (!generic && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::table;
#endif
  return base::table;
}

const Table& active() {
  static const Table& table = choose();
  return table;
}

}  // namespace

const char* isa() { return active().name; }

uint64_t workspace_bytes(size_t n_threads, size_t max_m, size_t max_n, size_t max_k, size_t max_T,
                         size_t head_dim) {
  const uint64_t k = smaller(round_up(max_k, 4), gemm_k);
  const uint64_t gemm_floats =
      (smaller(max_m, gemm_m) + 2 * panel_limit) * k + (smaller(max_n, gemm_n) + 2 * panel_limit) * k + 64;
  const uint64_t widest = max_n > max_k ? max_n : max_k;
  const uint64_t partial_floats = 2 * row_chunks * widest;
  const uint64_t norm_floats = 2 * norm_chunks;
  const uint64_t attention_floats = n_threads * attention_scratch_floats(max_T, head_dim);
  uint64_t floats = gemm_floats;
  for (const uint64_t need : {partial_floats, norm_floats, attention_floats})
    if (need > floats) floats = need;
  return (floats * sizeof(float) + 63) / 64 * 64;
}

void matmul(Pool& pool, void* workspace, Trans trans, size_t M, size_t N, size_t K, const float* A,
            const float* B, float* out, const Epilogue& epilogue) {
  active().matmul(pool, workspace, trans, M, N, K, A, B, out, epilogue);
}
void bias_backward(Pool& pool, void* workspace, float* db, const float* dy, size_t M, size_t N) {
  active().bias_backward(pool, workspace, db, dy, M, N);
}
void layernorm_forward(Pool& pool, float* out, float* mean, float* rstd, const float* x, const float* weight,
                       const float* bias, size_t R, size_t C) {
  active().layernorm_forward(pool, out, mean, rstd, x, weight, bias, R, C);
}
void layernorm_backward(Pool& pool, void* workspace, float* dx, float* dweight, float* dbias, const float* dy,
                        const float* x, const float* weight, const float* mean, const float* rstd, size_t R,
                        size_t C) {
  active().layernorm_backward(pool, workspace, dx, dweight, dbias, dy, x, weight, mean, rstd, R, C);
}
void gelu_forward(Pool& pool, float* out, const float* x, size_t n, Gelu kind) {
  active().gelu_forward(pool, out, x, n, kind);
}
void gelu_backward(Pool& pool, float* dx, const float* dout, const float* x, size_t n, Gelu kind) {
  active().gelu_backward(pool, dx, dout, x, n, kind);
}
void dropout_apply(Pool& pool, float* y, const float* x, size_t n, const Dropout& dropout) {
  active().dropout_apply(pool, y, x, n, dropout);
}
void attention_forward(Pool& pool, void* workspace, float* out, float* lse, const float* qkv, size_t B,
                       size_t T, size_t H, size_t D, const Dropout& dropout) {
  active().attention_forward(pool, workspace, out, lse, qkv, B, T, H, D, dropout);
}
void attention_backward(Pool& pool, void* workspace, float* dqkv, const float* dout, const float* out,
                        const float* lse, const float* qkv, size_t B, size_t T, size_t H, size_t D,
                        const Dropout& dropout) {
  active().attention_backward(pool, workspace, dqkv, dout, out, lse, qkv, B, T, H, D, dropout);
}
void attention_decode(Pool& pool, void* workspace, float* out, const float* q, const float* k_cache,
                      const float* v_cache, size_t n, size_t ctx, size_t H, size_t D) {
  active().attention_decode(pool, workspace, out, q, k_cache, v_cache, n, ctx, H, D);
}
void embedding_forward(Pool& pool, float* out, const uint32_t* tokens, const float* wte, const float* wpe,
                       size_t B, size_t T, size_t C, size_t position0, const Dropout& dropout) {
  active().embedding_forward(pool, out, tokens, wte, wpe, B, T, C, position0, dropout);
}
void embedding_backward(Pool& pool, void* workspace, float* dwte, float* dwpe, const float* dx,
                        const uint32_t* tokens, size_t B, size_t T, size_t C) {
  active().embedding_backward(pool, workspace, dwte, dwpe, dx, tokens, B, T, C);
}
void cross_entropy_forward(Pool& pool, float* losses, const float* logits, const uint32_t* targets, size_t R,
                           size_t V) {
  active().cross_entropy_forward(pool, losses, logits, targets, R, V);
}
void cross_entropy_backward(Pool& pool, float* logits, const uint32_t* targets, size_t R, size_t V,
                            float scale) {
  active().cross_entropy_backward(pool, logits, targets, R, V, scale);
}
double sum_of_squares(Pool& pool, void* workspace, const float* x, size_t n) {
  return active().sum_of_squares(pool, workspace, x, n);
}
void adamw(Pool& pool, float* p, float* m, float* v, const float* g, size_t n, const AdamW& parameters) {
  active().adamw(pool, p, m, v, g, n, parameters);
}

}  // namespace tabgpt::kernels
