/** Attention, both ways: a workgroup a row, or a tile of rows (FlashAttention-2). */
#include "gpu/model.hpp"

namespace tabgpt::gpu {
namespace {

constexpr uint64_t kTile = 64;  ///< rows of a workgroup of shaders/flash.wgsl

}  // namespace

/** What all kernels of a layer's attention share. */
template <typename K>
void Model::run_attention(const std::string& label, uint64_t layer, K kernel) {
  kernel.batch = u32(B_);
  kernel.length = u32(T_);
  kernel.heads = u32(H_);
  kernel.head_dim = u32(D_);
  kernel.scale = attention_scale();
  kernel.site = dropout_site(Site::attention, layer);
  kernel.threshold = dropout_threshold(config_.dropout);
  kernel.keep_scale = dropout_scale(config_.dropout);
  kernel.step = one(fixed_.step);
  kernel.DROPOUT = config_.dropout > 0;
  const uint64_t rows = variants_.attention == Attention::plain ? 1 : kTile;
  builder_.run(block_name(layer) + label, kernel, folded(B_ * H_ * ((T_ + rows - 1) / rows)));
}

void Model::attention(uint64_t layer, Range qkv, Range out) {
  const auto run = [&](auto kernel) {
    kernel.qkv = qkv;
    kernel.out = out;
    kernel.lse = act(block_name(layer) + "attn.lse", {B_, H_, T_});
    run_attention("attn", layer, kernel);
  };
  if (variants_.attention == Attention::plain) {
    run(wgsl::attention_forward{});
  } else {
    run(wgsl::flash_forward{});
  }
}

void Model::attention_backward(uint64_t layer, Range dqkv, Range d_attn) {
  const std::string h = block_name(layer);
  const Range row_dot = scratch("scratch.row_dot", {B_, H_, T_});
  wgsl::attention_d dots{.batch = u32(B_), .length = u32(T_), .heads = u32(H_), .head_dim = u32(D_)};
  dots.dout = d_attn;
  dots.out = channels(h + "attn.out");
  dots.row_dot = row_dot;
  builder_.run(h + "attn row_dot", dots, folded(groups(B_ * H_ * T_, dots.workgroup)));

  const auto run = [&](const char* label, auto kernel) {
    kernel.qkv = act(h + "attn.qkv", {B_, T_, 3 * C_});
    kernel.dout = d_attn;
    kernel.lse = act(h + "attn.lse", {B_, H_, T_});
    kernel.row_dot = row_dot;
    kernel.dqkv = dqkv;
    run_attention(label, layer, kernel);
  };
  if (variants_.attention == Attention::plain) {
    run("attn dq", wgsl::attention_dq{});
    run("attn dk dv", wgsl::attention_dkv{});
  } else {
    run("attn dq", wgsl::flash_dq{});
    run("attn dk dv", wgsl::flash_dkv{});
  }
}

}  // namespace tabgpt::gpu
