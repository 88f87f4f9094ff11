/** The forward pass: embedding, blocks, ln_f. */
#include "gpu/model.hpp"

namespace tabgpt::gpu {
Model::Model(const Config& config, const Layout& layout, Mode mode, Variants variants, uint64_t head_rows,
             const Fixed& fixed, Builder& builder, uint64_t B, uint64_t T)
    : config_(config),
      layout_(layout),
      mode_(mode),
      variants_(variants),
      head_rows_(head_rows),
      fixed_(fixed),
      builder_(builder),
      B_(B),
      T_(T),
      R_(B * T),
      C_(config.d_model),
      F_(config.mlp()),
      H_(config.n_head),
      D_(config.head_dim()),
      V_(config.vocab_size),
      L_(config.n_layer) {}

Range Model::act(const std::string& name, std::vector<uint64_t> shape) {
  const uint32_t tensor = builder_.tensor(name, Role::activations, std::move(shape));
  if (probe()) builder_.tensors[tensor].kept = builder_.tensors[tensor].listed = true;
  return builder_.all(tensor);
}

Range Model::scratch(const std::string& name, std::vector<uint64_t> shape, Role role) {
  return builder_.all(builder_.tensor(name, role, std::move(shape)));
}

void Model::layernorm(const std::string& name, Range x, uint32_t weight, uint32_t bias) {
  wgsl::layernorm_forward kernel{.rows = u32(x.count / C_), .width = u32(C_)};
  kernel.x = x;
  kernel.weight = p(weight);
  kernel.bias = p(bias);
  kernel.out = channels(name + ".out");
  kernel.mean = act(name + ".mean", {B_, T_});
  kernel.rstd = act(name + ".rstd", {B_, T_});
  builder_.run(name, kernel, folded(kernel.rows));
}

Range Model::block(uint64_t layer, Range x, bool keep_cache) {
  const BlockParameters& w = layout_.blocks[layer];
  const std::string h = block_name(layer);

  layernorm(h + "ln_1", x, w.ln_1_w, w.ln_1_b);
  const Range qkv = act(h + "attn.qkv", {B_, T_, 3 * C_});
  matmul(h + "attn.c_attn", {.trans = Product::NN,
                             .M = R_,
                             .N = 3 * C_,
                             .K = C_,
                             .A = channels(h + "ln_1.out"),
                             .B = p(w.attn_w),
                             .out = qkv,
                             .bias = p(w.attn_b)});
  if (keep_cache) keep_keys_and_values(layer, qkv, R_, fixed_.step);
  const Range attn = channels(h + "attn.out");
  attention(layer, qkv, attn);
  const Range mid = channels(h + "resid_mid");
  matmul(h + "attn.c_proj", {.trans = Product::NN,
                             .M = R_,
                             .N = C_,
                             .K = C_,
                             .A = attn,
                             .B = p(w.attn_proj_w),
                             .out = mid,
                             .bias = p(w.attn_proj_b),
                             .residual = x,
                             .masked = masked(Site::attention_residual, layer)});

  layernorm(h + "ln_2", mid, w.ln_2_w, w.ln_2_b);
  const Range fc = mode_ == Mode::infer ? Range{} : act(h + "mlp.fc", {B_, T_, F_});
  const Range activated = act(h + "mlp.act", {B_, T_, F_});
  matmul(h + "mlp.c_fc", {.trans = Product::NN,
                          .M = R_,
                          .N = F_,
                          .K = C_,
                          .A = channels(h + "ln_2.out"),
                          .B = p(w.fc_w),
                          .out = activated,
                          .bias = p(w.fc_b),
                          .pre_gelu = fc,
                          .gelu = true});
  const Range out = channels(h + "resid_out");
  matmul(h + "mlp.c_proj", {.trans = Product::NN,
                            .M = R_,
                            .N = C_,
                            .K = F_,
                            .A = activated,
                            .B = p(w.mlp_proj_w),
                            .out = out,
                            .bias = p(w.mlp_proj_b),
                            .residual = mid,
                            .masked = masked(Site::mlp_residual, layer)});
  return out;
}

void Model::forward(bool keep_cache) {
  wgsl::embedding_forward kernel{.rows = u32(R_), .length = u32(T_), .width = u32(C_)};
  kernel.site = dropout_site(Site::embedding, 0);
  kernel.threshold = dropout_threshold(config_.dropout);
  kernel.scale = dropout_scale(config_.dropout);
  kernel.step = one(fixed_.step);
  kernel.tokens = {fixed_.tokens, 0, R_};
  kernel.wte = p(layout_.wte);
  kernel.wpe = p(layout_.wpe);
  kernel.out = channels("embed.out");
  kernel.DROPOUT = config_.dropout > 0;
  builder_.run("embed", kernel, folded(groups(R_ * C_, kernel.workgroup)));
  Range x = kernel.out;
  for (uint64_t layer = 0; layer < L_; ++layer) x = block(layer, x, keep_cache);
  layernorm("ln_f", x, layout_.ln_f_w, layout_.ln_f_b);
}

}  // namespace tabgpt::gpu
