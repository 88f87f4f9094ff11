/** One token through the model against cached keys and values: the forward pass with R = 1. */
#include <cstring>

#include "tabgpt/model.hpp"

namespace tabgpt {

void decode(const Model& m, const DecodeRow& row, const KvCache& cache, uint32_t token, size_t position) {
  const size_t C = m.config.d_model, F = m.config.mlp(), H = m.config.n_head, D = m.config.head_dim();
  const auto norm = [&](const float* x, uint32_t weight, uint32_t bias) {
    kernels::layernorm_forward(m.pool, row.norm, row.mean, row.rstd, x, m.p(weight), m.p(bias), 1, C);
  };
  kernels::embedding_forward(m.pool, row.x, &token, m.p(m.layout.wte), m.p(m.layout.wpe), 1, 1, C, position,
                             {});
  for (size_t layer = 0; layer < m.config.n_layer; ++layer) {
    const BlockParameters& w = m.layout.blocks[layer];
    norm(row.x, w.ln_1_w, w.ln_1_b);
    kernels::matmul(m.pool, m.workspace, Trans::NN, 1, 3 * C, C, row.norm, m.p(w.attn_w), row.qkv,
                    {.bias = m.p(w.attn_b)});
    for (size_t h = 0; h < H; ++h) {
      const size_t at = (h * cache.ctx + position) * D;
      std::memcpy(cache.keys(layer) + at, row.qkv + C + h * D, D * sizeof(float));
      std::memcpy(cache.values(layer) + at, row.qkv + 2 * C + h * D, D * sizeof(float));
    }
    kernels::attention_decode(m.pool, m.workspace, row.attn, row.qkv, cache.keys(layer), cache.values(layer),
                              position + 1, cache.ctx, H, D);
    kernels::matmul(m.pool, m.workspace, Trans::NN, 1, C, C, row.attn, m.p(w.attn_proj_w), row.mid,
                    {.bias = m.p(w.attn_proj_b), .residual = row.x});
    norm(row.mid, w.ln_2_w, w.ln_2_b);
    kernels::matmul(m.pool, m.workspace, Trans::NN, 1, F, C, row.norm, m.p(w.fc_w), row.act,
                    {.bias = m.p(w.fc_b), .gelu = m.gelu()});
    kernels::matmul(m.pool, m.workspace, Trans::NN, 1, C, F, row.act, m.p(w.mlp_proj_w), row.x,
                    {.bias = m.p(w.mlp_proj_b), .residual = row.mid});
  }
  norm(row.x, m.layout.ln_f_w, m.layout.ln_f_b);
}

}  // namespace tabgpt
