/**
 * The model's passes as commands: what forward.cpp, backward.cpp, head.cpp and
 * decode.cpp of the CPU compute, in the same order, tensor by tensor.
 *
 * B sequences of T tokens (R = B * T rows), C = H * D channels, F of the MLP, V ids.
 */
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "gpu/builder.hpp"
#include "gpu/variants.hpp"
#include "tabgpt/config.hpp"
#include "tabgpt/layout.hpp"
#include "tabgpt/plan.hpp"
#include "tabgpt/streams.hpp"

namespace tabgpt::gpu {

/** Tensors that exist before any pass is written down, as indices into Builder::tensors. */
struct Fixed {
  std::vector<uint32_t> parameters, gradients;  ///< by Layout's index
  struct Piece {
    uint32_t parameters, gradients, m, v;  ///< one stretch of the arenas, a buffer each
    uint64_t first, decayed;  ///< where it starts in the arena; elements that decay, from its start
  };
  std::vector<Piece> pieces;
  uint32_t step, decode_step, tokens, targets, token_starts, token_rows, token;  ///< uploaded by the host
};

constexpr uint32_t u32(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint64_t groups(uint64_t threads, uint32_t workgroup) {
  return (threads + workgroup - 1) / workgroup;
}
inline std::string block_name(uint64_t layer) { return "h." + std::to_string(layer) + "."; }
/** Bits 15-0 of dropout's c3. */
constexpr uint32_t dropout_site(Site site, uint64_t layer) { return stream_c3(Use{}, 0, u32(layer), site); }

/** Rows of logits made at a time: a multiple of 64, so that each chunk starts on 256 bytes. */
uint64_t head_rows(const Config& config, uint64_t max_binding_bytes);

class Model {
 public:
  Model(const Config& config, const Layout& layout, Mode mode, Variants variants, uint64_t head_rows,
        const Fixed& fixed, Builder& builder, uint64_t B, uint64_t T);

  /** Tokens to ln_f.out. */
  void forward() { forward(false); }
  /** The same of one sequence of ctx tokens, keeping each layer's keys and values. */
  void prefill() { forward(true); }
  /** ln_f.out to losses. */
  void losses();
  /** ln_f.out to the logits of one chunk of rows, of chunks(). */
  void logits(uint64_t chunk);
  uint64_t chunks() const { return (R_ + head_rows_ - 1) / head_rows_; }
  /** ln_f.out to losses, and every gradient, added to what is there. */
  void backward();
  void begin_step();
  void update();
  /** One token at Step::position against the cache, to its logits. */
  void decode();

 private:
  friend class Op;

  /** One product and its epilogue; shaders/matmul.wgsl. */
  struct Product {
    enum Trans : uint32_t { NN, NT, TN } trans = NN;
    uint64_t M = 0, N = 0, K = 0;
    Range A = {}, B = {}, out = {}, bias = {}, residual = {}, pre_gelu = {};
    bool gelu = false, accumulate = false;
    Range slope_of = {};      ///< the result is multiplied by GELU's slope there; pre_gelu keeps it before
    uint32_t masked = kNone;  ///< site of the dropout behind the product
  };

  /** Of a tensor of the residual stream. */
  struct Gradient {
    Range whole;
    Range branch;  ///< behind the dropout of the branch that was added last; the whole where there is none
  };

  void forward(bool keep_cache);
  Range block(uint64_t layer, Range x, bool keep_cache);
  void matmul(const std::string& label, const Product& product);
  template <typename K>
  K with_epilogue(K kernel, const Product& product) const;
  static bool is_in_vectors(const Product& product);
  Choice choice(const Product& product) const;
  void attention(uint64_t layer, Range qkv, Range out);
  void layernorm(const std::string& name, Range x, uint32_t weight, uint32_t bias);
  Range head_chunk(uint64_t chunk, uint64_t* rows);
  Range cross_entropy(uint64_t chunk, uint64_t rows, Range logits, bool backward);
  void head_backward();
  Gradient block_backward(uint64_t layer, Range x, Gradient d_out);
  /** dx: the product's N, K, out and what becomes of it. */
  void linear_backward(const std::string& label, Range dy, Range x, uint32_t weight, uint32_t bias,
                       Product dx);
  /** dx of a layer norm plus `residual`, in place where the plan lets the two be one tensor; masked as x's
   * branch was. */
  Gradient layernorm_backward(const std::string& name, const std::string& dx, Range dout, Range x,
                              uint32_t weight, uint32_t bias, Range residual, Site site, uint64_t layer);
  void layernorm_params(const std::string& name, Range dout, Range x, uint32_t weight, uint32_t bias);
  void attention_backward(uint64_t layer, Range dqkv, Range d_attn);
  template <typename K>
  void run_attention(const std::string& label, uint64_t layer, K kernel);
  void embedding_backward(Range d_embed);
  /** partials [chunks, parameters, width] -> added to the gradients of parameters that have `width` elements
   * each. */
  void add_partials(const std::string& label, Range partials, uint64_t width,
                    const std::vector<uint32_t>& parameters);
  /** The gradients from the first parameter to the last as one range; none where a cut of the arena parts
   * them. */
  Range stretch(uint32_t first, uint32_t last) const;
  Range cache(const std::string& name);
  void keep_keys_and_values(uint64_t layer, Range qkv, uint64_t rows, uint32_t step);
  Range partial_sums(uint64_t width, uint64_t chunks);

  Range p(uint32_t index) const { return builder_.all(fixed_.parameters[index]); }
  Range dp(uint32_t index) const { return builder_.all(fixed_.gradients[index]); }
  /** A named activation, which "probe" keeps. */
  Range act(const std::string& name, std::vector<uint64_t> shape);
  Range channels(const std::string& name) { return act(name, {B_, T_, C_}); }
  Range scratch(const std::string& name, std::vector<uint64_t> shape, Role role = Role::workspace);
  Range one(uint32_t tensor) const { return builder_.all(tensor); }
  uint32_t masked(Site site, uint64_t layer) const {
    return config_.dropout > 0 ? dropout_site(site, layer) : kNone;
  }
  uint32_t gelu() const { return config_.activation == Activation::gelu_tanh ? 1 : 2; }
  float attention_scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(D_))); }
  bool probe() const { return mode_ == Mode::probe; }

  const Config& config_;
  const Layout& layout_;
  const Mode mode_;
  const Variants variants_;
  const uint64_t head_rows_;
  const Fixed& fixed_;
  Builder& builder_;
  const uint64_t B_, T_, R_, C_, F_, H_, D_, V_, L_;
};

}  // namespace tabgpt::gpu
