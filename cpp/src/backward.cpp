/** The backward pass by hand: from the head's gradient to the embeddings'. */
#include <cstring>

#include "head.hpp"
#include "tabgpt/model.hpp"

namespace tabgpt {
namespace {

/** Hands a gradient on to the tensor that adds to it in place; a copy only where "probe" keeps both. */
void carry(const Model& m, uint32_t from, uint32_t to, size_t floats) {
  if (m.a(from) != m.a(to)) std::memcpy(m.a(to), m.a(from), floats * sizeof(float));
}

/** dout behind a residual branch's dropout; dout itself where there is none. */
const float* branch_gradient(const Model& m, const float* dout, size_t floats, const Dropout& dropout) {
  if (dropout.threshold == 0) return dout;
  float* d_branch = m.a(m.plan.d_branch);
  kernels::dropout_apply(m.pool, d_branch, dout, floats, dropout);
  return d_branch;
}

/** y[R,N] = x[R,K] W[K,N] + b: dx = dy W^T; dW (+)= x^T dy; db += column sums of dy. */
void linear_backward(const Model& m, float* dx, const float* dy, const float* x, uint32_t weight,
                     uint32_t bias, size_t R, size_t K, size_t N, bool add, const Epilogue& of_dx = {}) {
  kernels::matmul(m.pool, m.workspace, Trans::NT, R, K, N, dy, m.p(weight), dx, of_dx);
  kernels::matmul(m.pool, m.workspace, Trans::TN, K, N, R, x, dy, m.dp(weight), {.accumulate = add});
  kernels::bias_backward(m.pool, m.workspace, m.dp(bias), dy, R, N);
}

/** Zeros where kernels only add: wpe, biases, layer norms. The first product of a matrix writes its gradient.
 */
void clear_small_gradients(const Model& m) {
  const Parameter& wpe = m.layout.parameters[m.layout.wpe];
  std::memset(m.gradients + wpe.offset, 0, wpe.count() * sizeof(float));
  const uint64_t vectors = m.layout.decayed_floats;
  std::memset(m.gradients + vectors, 0, (m.layout.total_floats - vectors) * sizeof(float));
}

/** grad:resid_out of the layer -> grad:`d_input`, the gradient of the block's input x. */
void block_backward(const Model& m, const Batch& batch, uint32_t layer, const float* x, uint32_t d_input,
                    bool add) {
  const BlockParameters& w = m.layout.blocks[layer];
  const BlockSlots& s = m.plan.blocks[layer];
  const size_t R = batch.rows(), C = m.config.d_model, F = m.config.mlp();

  const float* d_mlp =
      branch_gradient(m, m.a(s.d_resid_out), R * C, m.dropout(batch, Site::mlp_residual, layer));
  float* const d_act = m.a(s.d_act) == m.a(s.d_fc) ? nullptr : m.a(s.d_act);  // in "probe" alone
  linear_backward(m, m.a(s.d_fc), d_mlp, m.a(s.act), w.mlp_proj_w, w.mlp_proj_b, R, F, C, add,
                  {.pre_factor = d_act, .factor = m.a(s.slope)});
  linear_backward(m, m.a(s.d_ln_2), m.a(s.d_fc), m.a(s.ln_2), w.fc_w, w.fc_b, R, C, F, add);
  carry(m, s.d_resid_out, s.d_resid_mid, R * C);
  kernels::layernorm_backward(m.pool, m.workspace, m.a(s.d_resid_mid), m.dp(w.ln_2_w), m.dp(w.ln_2_b),
                              m.a(s.d_ln_2), m.a(s.resid_mid), m.p(w.ln_2_w), m.a(s.ln_2_mean),
                              m.a(s.ln_2_rstd), R, C);

  const float* d_proj =
      branch_gradient(m, m.a(s.d_resid_mid), R * C, m.dropout(batch, Site::attention_residual, layer));
  linear_backward(m, m.a(s.d_attn), d_proj, m.a(s.attn), w.attn_proj_w, w.attn_proj_b, R, C, C, add);
  kernels::attention_backward(m.pool, m.workspace, m.a(s.d_qkv), m.a(s.d_attn), m.a(s.attn), m.a(s.lse),
                              m.a(s.qkv), batch.B, batch.T, m.config.n_head, m.config.head_dim(),
                              m.dropout(batch, Site::attention, layer));
  linear_backward(m, m.a(s.d_ln_1), m.a(s.d_qkv), m.a(s.ln_1), w.attn_w, w.attn_b, R, C, 3 * C, add);
  carry(m, s.d_resid_mid, d_input, R * C);
  kernels::layernorm_backward(m.pool, m.workspace, m.a(d_input), m.dp(w.ln_1_w), m.dp(w.ln_1_b),
                              m.a(s.d_ln_1), x, m.p(w.ln_1_w), m.a(s.ln_1_mean), m.a(s.ln_1_rstd), R, C);
}

}  // namespace

double loss_sum_and_backward(const Model& m, const Batch& batch, float scale, bool add) {
  const Plan& plan = m.plan;
  const auto L = static_cast<uint32_t>(m.config.n_layer);
  const size_t R = batch.rows(), C = m.config.d_model;

  if (!add) clear_small_gradients(m);
  const double sum = head_backward(m, batch, scale, add);
  const BlockSlots& top = plan.blocks[L - 1];
  std::memset(m.a(top.d_resid_out), 0, R * C * sizeof(float));
  kernels::layernorm_backward(m.pool, m.workspace, m.a(top.d_resid_out), m.dp(m.layout.ln_f_w),
                              m.dp(m.layout.ln_f_b), m.a(plan.d_ln_f), m.a(top.resid_out),
                              m.p(m.layout.ln_f_w), m.a(plan.ln_f_mean), m.a(plan.ln_f_rstd), R, C);
  for (uint32_t layer = L; layer-- > 0;) {
    const bool first = layer == 0;
    const float* x = m.a(first ? plan.embed_out : plan.blocks[layer - 1].resid_out);
    block_backward(m, batch, layer, x, first ? plan.d_embed_out : plan.blocks[layer - 1].d_resid_out, add);
  }
  const float* d_embed =
      branch_gradient(m, m.a(plan.d_embed_out), R * C, m.dropout(batch, Site::embedding, 0));
  kernels::embedding_backward(m.pool, m.workspace, m.dp(m.layout.wte), m.dp(m.layout.wpe), d_embed,
                              batch.tokens, batch.B, batch.T, C);
  return sum;
}

}  // namespace tabgpt
