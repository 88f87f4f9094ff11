/** The backward pass, from the head's gradient to the embeddings'. */
#include <algorithm>

#include "gpu/model.hpp"

namespace tabgpt::gpu {
namespace {

/** Rows are summed in at most this many chunks, of at least kLeastChunk rows: as the CPU's sums across rows.
 */
constexpr uint64_t kMostChunks = 64, kLeastChunk = 16;

struct RowChunks {
  explicit RowChunks(uint64_t rows)
      : size(std::max(kLeastChunk, (rows + kMostChunks - 1) / kMostChunks)),
        count((rows + size - 1) / size) {}
  uint64_t size, count;
};

}  // namespace

Range Model::stretch(uint32_t first, uint32_t last) const {
  const uint64_t begin = layout_.parameters[first].offset;
  const uint64_t end = layout_.parameters[last].offset + layout_.parameters[last].count();
  for (const Fixed::Piece& piece : fixed_.pieces) {
    if (piece.first <= begin && end <= piece.first + one(piece.gradients).count) {
      return {piece.gradients, begin - piece.first, end - begin};
    }
  }
  return {};
}

void Model::add_partials(const std::string& label, Range partials, uint64_t width,
                         const std::vector<uint32_t>& parameters) {
  const uint64_t stride = width * parameters.size();
  const auto run = [&](Range out, uint64_t first, uint64_t n, uint64_t apart) {
    wgsl::add_partials kernel{.n = u32(n), .chunks = u32(partials.count / stride), .stride = u32(stride)};
    kernel.first = u32(first);
    kernel.width = u32(width);
    kernel.apart = u32(apart);
    kernel.partials = partials;
    kernel.out = out;
    builder_.run(label, kernel, folded(groups(n, kernel.workgroup)));
  };
  const Range all = stretch(parameters.front(), parameters.back());
  if (all.tensor != kNone) {  // equal sizes that follow each other start equally far apart
    run(all, 0, stride, align_floats(width));
    return;
  }
  for (size_t i = 0; i < parameters.size(); ++i) run(dp(parameters[i]), i * width, width, width);
}

/** Room for partial sums of `width` columns; the last few rows of a short batch may make more chunks than
 * all. */
Range Model::partial_sums(uint64_t width, uint64_t chunks) {
  const uint32_t partials = scratch("scratch.partials", {kMostChunks, width}).tensor;
  return {partials, 0, chunks * width};
}

/** y[R,N] = x[R,K] W[K,N] + b: dx = dy W^T and what becomes of it; dW += x^T dy; db += column sums of dy. */
void Model::linear_backward(const std::string& label, Range dy, Range x, uint32_t weight, uint32_t bias,
                            Product dx) {
  const uint64_t N = dx.K;
  dx.trans = Product::NT;
  dx.M = R_;
  dx.A = dy;
  dx.B = p(weight);
  matmul(label + " dx", dx);
  matmul(label + " dweight", {.trans = Product::TN,
                              .M = dx.N,
                              .N = N,
                              .K = R_,
                              .A = x,
                              .B = dy,
                              .out = dp(weight),
                              .accumulate = true});
  const RowChunks chunks(R_);
  wgsl::column_sums kernel{.rows = u32(R_), .width = u32(N), .rows_per_chunk = u32(chunks.size)};
  kernel.x = dy;
  kernel.partials = partial_sums(N, chunks.count);
  builder_.run(label + " dbias", kernel, {u32(groups(N, kernel.workgroup)), u32(chunks.count), 1});
  add_partials(label + " dbias sum", kernel.partials, N, {bias});
}

void Model::layernorm_params(const std::string& name, Range dout, Range x, uint32_t weight, uint32_t bias) {
  const RowChunks chunks(R_);
  wgsl::layernorm_params kernel{.rows = u32(R_), .width = u32(C_), .rows_per_chunk = u32(chunks.size)};
  kernel.dout = dout;
  kernel.x = x;
  kernel.mean = act(name + ".mean", {B_, T_});
  kernel.rstd = act(name + ".rstd", {B_, T_});
  kernel.partials = partial_sums(2 * C_, chunks.count);
  builder_.run(name + " dparams", kernel, {u32(groups(C_, kernel.workgroup)), u32(chunks.count), 1});
  add_partials(name + " dparams sum", kernel.partials, C_, {weight, bias});
}

Model::Gradient Model::layernorm_backward(const std::string& name, const std::string& dx, Range dout, Range x,
                                          uint32_t weight, uint32_t bias, Range residual, Site site,
                                          uint64_t layer) {
  layernorm_params(name, dout, x, weight, bias);
  const bool has_residual = residual.tensor != kNone, in_place = has_residual && !probe();
  const bool masked = config_.dropout > 0;
  wgsl::layernorm_backward kernel{.rows = u32(R_), .width = u32(C_)};
  kernel.site = dropout_site(site, layer);
  kernel.threshold = dropout_threshold(config_.dropout);
  kernel.scale = dropout_scale(config_.dropout);
  kernel.step = one(fixed_.step);
  kernel.dout = dout;
  kernel.x = x;
  kernel.weight = p(weight);
  kernel.mean = act(name + ".mean", {B_, T_});
  kernel.rstd = act(name + ".rstd", {B_, T_});
  kernel.residual = in_place ? Range{} : residual;
  kernel.dx = in_place ? residual : channels(dx);
  kernel.masked = masked ? scratch("scratch." + dx, {B_, T_, C_}, Role::activations) : Range{};
  kernel.RESIDUAL = has_residual && !in_place;
  kernel.ACCUMULATE = in_place;
  kernel.DROPOUT = masked;
  builder_.run(name + " dx", kernel, folded(R_));
  return {kernel.dx, masked ? kernel.masked : kernel.dx};
}

/** d_out, the gradient of the layer's resid_out -> the gradient of the block's input x. */
Model::Gradient Model::block_backward(uint64_t layer, Range x, Gradient d_out) {
  const BlockParameters& w = layout_.blocks[layer];
  const std::string h = block_name(layer), g = "grad:" + h;

  const Range d_fc = act(g + "mlp.fc", {B_, T_, F_});
  linear_backward(h + "mlp.c_proj", d_out.branch, act(h + "mlp.act", {B_, T_, F_}), w.mlp_proj_w,
                  w.mlp_proj_b,
                  {.N = F_,
                   .K = C_,
                   .out = d_fc,
                   .pre_gelu = probe() ? act(g + "mlp.act", {B_, T_, F_}) : Range{},
                   .slope_of = act(h + "mlp.fc", {B_, T_, F_})});
  const Range d_ln_2 = channels(g + "ln_2.out");
  linear_backward(h + "mlp.c_fc", d_fc, channels(h + "ln_2.out"), w.fc_w, w.fc_b,
                  {.N = C_, .K = F_, .out = d_ln_2});
  const Gradient d_mid = layernorm_backward(h + "ln_2", g + "resid_mid", d_ln_2, channels(h + "resid_mid"),
                                            w.ln_2_w, w.ln_2_b, d_out.whole, Site::attention_residual, layer);

  const Range d_attn = channels(g + "attn.out");
  linear_backward(h + "attn.c_proj", d_mid.branch, channels(h + "attn.out"), w.attn_proj_w, w.attn_proj_b,
                  {.N = C_, .K = C_, .out = d_attn});
  const Range dqkv = act(g + "attn.qkv", {B_, T_, 3 * C_});
  attention_backward(layer, dqkv, d_attn);
  const Range d_ln_1 = channels(g + "ln_1.out");
  linear_backward(h + "attn.c_attn", dqkv, channels(h + "ln_1.out"), w.attn_w, w.attn_b,
                  {.N = C_, .K = 3 * C_, .out = d_ln_1});
  const bool first = layer == 0;
  const std::string input = first ? "grad:embed.out" : "grad:" + block_name(layer - 1) + "resid_out";
  return layernorm_backward(h + "ln_1", input, d_ln_1, x, w.ln_1_w, w.ln_1_b, d_mid.whole,
                            first ? Site::embedding : Site::mlp_residual, first ? 0 : layer - 1);
}

void Model::embedding_backward(Range d_embed) {
  wgsl::embedding_wte wte{.vocab = u32(V_), .width = u32(C_)};
  wte.starts = one(fixed_.token_starts);
  wte.rows = {fixed_.token_rows, 0, R_};
  wte.dx = d_embed;
  wte.dwte = dp(layout_.wte);
  builder_.run("embed dwte", wte, folded(groups(V_ * C_, wte.workgroup)));
  wgsl::embedding_wpe wpe{.batch = u32(B_), .length = u32(T_), .width = u32(C_)};
  wpe.dx = d_embed;
  wpe.dwpe = dp(layout_.wpe);
  builder_.run("embed dwpe", wpe, folded(groups(T_ * C_, wpe.workgroup)));
}

void Model::backward() {
  head_backward();
  const auto resid_out = [&](uint64_t layer) { return channels(block_name(layer) + "resid_out"); };
  const uint64_t last = L_ - 1;
  Gradient d =
      layernorm_backward("ln_f", "grad:" + block_name(last) + "resid_out", channels("grad:ln_f.out"),
                         resid_out(last), layout_.ln_f_w, layout_.ln_f_b, {}, Site::mlp_residual, last);
  for (uint64_t layer = L_; layer-- > 0;) {
    d = block_backward(layer, layer == 0 ? channels("embed.out") : resid_out(layer - 1), d);
  }
  embedding_backward(d.branch);
}

}  // namespace tabgpt::gpu
