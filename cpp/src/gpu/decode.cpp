/** One token against cached keys and values: the forward pass with R = 1. */
#include "gpu/model.hpp"

namespace tabgpt::gpu {

/** Rows of qkv into the layer's cache, [H,ctx,D] for keys and for values, from Step::position of `step` on.
 */
void Model::keep_keys_and_values(uint64_t layer, Range qkv, uint64_t rows, uint32_t step) {
  const std::string h = block_name(layer);
  wgsl::kv_store kernel{.rows = u32(rows), .heads = u32(H_), .head_dim = u32(D_), .ctx = u32(config_.ctx)};
  kernel.step = one(step);
  kernel.qkv = qkv;
  kernel.k_cache = cache(h + "keys");
  kernel.v_cache = cache(h + "values");
  builder_.run(h + "attn.cache", kernel, folded(groups(rows * C_, kernel.workgroup)));
}

Range Model::cache(const std::string& name) {
  const uint32_t tensor = builder_.tensor(name, Role::kv_cache, {H_, config_.ctx, D_});
  builder_.tensors[tensor].kept = true;
  return one(tensor);
}

void Model::decode() {
  const auto row = [&](const std::string& name, uint64_t width) {
    return scratch("decode." + name, {width}, Role::kv_cache);
  };
  const auto layernorm = [&](const std::string& name, Range x, uint32_t weight, uint32_t bias) {
    wgsl::layernorm_forward kernel{.rows = 1, .width = u32(C_)};
    kernel.x = x;
    kernel.weight = p(weight);
    kernel.bias = p(bias);
    kernel.out = row(name + ".out", C_);
    kernel.mean = row("mean", 1);
    kernel.rstd = row("rstd", 1);
    builder_.run("decode " + name, kernel, {1, 1, 1});
    return kernel.out;
  };
  const auto linear = [&](const std::string& name, Range x, uint32_t weight, uint32_t bias, uint64_t N,
                          Range residual, bool gelu = false) {
    const Range out = row(name, N);
    matmul("decode " + name, {.trans = Product::NN,
                              .M = 1,
                              .N = N,
                              .K = x.count,
                              .A = x,
                              .B = p(weight),
                              .out = out,
                              .bias = p(bias),
                              .residual = residual,
                              .gelu = gelu});
    return out;
  };
  wgsl::embedding_forward embed{.rows = 1, .length = 1, .width = u32(C_)};
  embed.step = one(fixed_.decode_step);
  embed.tokens = one(fixed_.token);
  embed.wte = p(layout_.wte);
  embed.wpe = p(layout_.wpe);
  embed.out = row("embed.out", C_);
  builder_.run("decode embed", embed, folded(groups(C_, embed.workgroup)));
  Range x = embed.out;
  for (uint64_t layer = 0; layer < L_; ++layer) {
    const BlockParameters& w = layout_.blocks[layer];
    const std::string h = block_name(layer);
    const Range qkv =
        linear(h + "attn.qkv", layernorm(h + "ln_1", x, w.ln_1_w, w.ln_1_b), w.attn_w, w.attn_b, 3 * C_, {});
    keep_keys_and_values(layer, qkv, 1, fixed_.decode_step);
    wgsl::attention_decode attend{.heads = u32(H_), .head_dim = u32(D_), .ctx = u32(config_.ctx)};
    attend.scale = attention_scale();
    attend.step = one(fixed_.decode_step);
    attend.qkv = qkv;
    attend.k_cache = cache(h + "keys");
    attend.v_cache = cache(h + "values");
    attend.out = row(h + "attn.out", C_);
    builder_.run("decode " + h + "attn", attend, {u32(H_), 1, 1});
    const Range mid = linear(h + "resid_mid", attend.out, w.attn_proj_w, w.attn_proj_b, C_, x);
    const Range act =
        linear(h + "mlp.act", layernorm(h + "ln_2", mid, w.ln_2_w, w.ln_2_b), w.fc_w, w.fc_b, F_, {}, true);
    x = linear(h + "resid_out", act, w.mlp_proj_w, w.mlp_proj_b, C_, mid);
  }
  const Range out = layernorm("ln_f", x, layout_.ln_f_w, layout_.ln_f_b);
  const Range logits = row("logits", V_);
  builder_.tensors[logits.tensor].listed = true;
  matmul("decode logits",
         {.trans = Product::NT, .M = 1, .N = V_, .K = C_, .A = out, .B = p(layout_.wte), .out = logits});
}

}  // namespace tabgpt::gpu
