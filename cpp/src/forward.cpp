/** The forward pass: GPT-2's pre-LayerNorm blocks, from tokens to ln_f.out. */
#include <algorithm>
#include <cstring>

#include "tabgpt/model.hpp"

namespace tabgpt {

Dropout Model::dropout(const Batch& batch, Site site, uint32_t layer) const {
  if (!batch.train || config.dropout <= 0) return {};
  Dropout dropout;
  dropout.seed = static_cast<uint32_t>(config.seed);
  dropout.c2 = batch.step;
  dropout.c3 = stream_c3(Use::dropout, batch.micro, layer, site);
  dropout.threshold = dropout_threshold(config.dropout);
  dropout.scale = dropout_scale(config.dropout);
  return dropout;
}

namespace {

/** Copies positions [0, T) of qkv[T,3C] into the layer's cache, [H,ctx,D] for keys and for values. */
void keep_keys_and_values(const Model& m, const KvCache& cache, size_t layer, const float* qkv, size_t T) {
  const size_t C = m.config.d_model, D = m.config.head_dim(), H = m.config.n_head;
  for (size_t h = 0; h < H; ++h) {
    for (size_t t = 0; t < T; ++t) {
      const float* row = qkv + t * 3 * C + h * D;
      const size_t at = (h * cache.ctx + t) * D;
      std::memcpy(cache.keys(layer) + at, row + C, D * sizeof(float));
      std::memcpy(cache.values(layer) + at, row + 2 * C, D * sizeof(float));
    }
  }
}

/** x[R,C] -> resid_out[R,C]: x + attention(ln_1(x)), then + mlp(ln_2(.)). */
void block_forward(const Model& m, const Batch& batch, uint32_t layer, const float* x, const KvCache* cache) {
  const BlockParameters& w = m.layout.blocks[layer];
  const BlockSlots& s = m.plan.blocks[layer];
  const size_t R = batch.rows(), C = m.config.d_model, F = m.config.mlp();

  kernels::layernorm_forward(m.pool, m.a(s.ln_1), m.a(s.ln_1_mean), m.a(s.ln_1_rstd), x, m.p(w.ln_1_w),
                             m.p(w.ln_1_b), R, C);
  kernels::matmul(m.pool, m.workspace, Trans::NN, R, 3 * C, C, m.a(s.ln_1), m.p(w.attn_w), m.a(s.qkv),
                  {.bias = m.p(w.attn_b)});
  if (cache != nullptr) keep_keys_and_values(m, *cache, layer, m.a(s.qkv), batch.T);
  kernels::attention_forward(m.pool, m.workspace, m.a(s.attn), m.a(s.lse), m.a(s.qkv), batch.B, batch.T,
                             m.config.n_head, m.config.head_dim(), m.dropout(batch, Site::attention, layer));
  const Dropout attn_dropout = m.dropout(batch, Site::attention_residual, layer);
  kernels::matmul(m.pool, m.workspace, Trans::NN, R, C, C, m.a(s.attn), m.p(w.attn_proj_w), m.a(s.resid_mid),
                  {.bias = m.p(w.attn_proj_b), .dropout = &attn_dropout, .residual = x});

  kernels::layernorm_forward(m.pool, m.a(s.ln_2), m.a(s.ln_2_mean), m.a(s.ln_2_rstd), m.a(s.resid_mid),
                             m.p(w.ln_2_w), m.p(w.ln_2_b), R, C);
  kernels::matmul(m.pool, m.workspace, Trans::NN, R, F, C, m.a(s.ln_2), m.p(w.fc_w), m.a(s.act),
                  {.bias = m.p(w.fc_b), .pre_gelu = m.a(s.fc), .slope = m.a(s.slope), .gelu = m.gelu()});
  const Dropout mlp_dropout = m.dropout(batch, Site::mlp_residual, layer);
  kernels::matmul(m.pool, m.workspace, Trans::NN, R, C, F, m.a(s.act), m.p(w.mlp_proj_w), m.a(s.resid_out),
                  {.bias = m.p(w.mlp_proj_b), .dropout = &mlp_dropout, .residual = m.a(s.resid_mid)});
}

}  // namespace

void forward(const Model& m, const Batch& batch, const KvCache* cache) {
  const size_t C = m.config.d_model;
  kernels::embedding_forward(m.pool, m.a(m.plan.embed_out), batch.tokens, m.p(m.layout.wte),
                             m.p(m.layout.wpe), batch.B, batch.T, C, 0, m.dropout(batch, Site::embedding, 0));
  const float* x = m.a(m.plan.embed_out);
  for (uint32_t layer = 0; layer < m.config.n_layer; ++layer) {
    block_forward(m, batch, layer, x, cache);
    x = m.a(m.plan.blocks[layer].resid_out);
  }
  kernels::layernorm_forward(m.pool, m.a(m.plan.ln_f), m.a(m.plan.ln_f_mean), m.a(m.plan.ln_f_rstd), x,
                             m.p(m.layout.ln_f_w), m.p(m.layout.ln_f_b), batch.rows(), C);
}

uint64_t workspace_bytes(const Config& config, const Plan& plan, size_t n_threads) {
  const size_t R = config.max_rows(), C = config.d_model, F = config.mlp(), V = config.vocab_size;
  const size_t rows = std::min<uint64_t>(R, plan.head_rows), wide = std::max(3 * C, F);
  struct Product {
    size_t M, N, K;
  };
  // Every matmul of the pass: forward and gradients of the input; gradients of the weights; the head's three.
  const Product products[] = {{R, wide, C}, {R, C, wide}, {C, wide, R}, {F, C, R},
                              {rows, V, C}, {rows, C, V}, {V, C, rows}};
  uint64_t most = 0;
  for (const Product& s : products) {
    const size_t bytes = kernels::workspace_bytes(n_threads, s.M, s.N, s.K, config.ctx, config.head_dim());
    most = std::max<uint64_t>(most, bytes);
  }
  return most;
}

}  // namespace tabgpt
