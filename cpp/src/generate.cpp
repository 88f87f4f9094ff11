/** Writing on: the window and its rule, and the CPU's prefill and decode. */
#include "tabgpt/generate.hpp"

#include <algorithm>
#include <cstring>

#include "philox.hpp"
#include "tabgpt/error.hpp"
#include "tabgpt/session.hpp"

namespace tabgpt {

void Generation::carve(const Config& config, Carver& carver) {
  choice_ = ChoiceBuffers::carve(config, carver);
  window_ = carver.take<uint32_t>(config.ctx);
}

bool Generation::begin(const Config& config, const uint32_t* prompt, size_t count, const Sampling& sampling) {
  active_ = false;
  if (count == 0) return fail("the prompt is empty; give at least one token");
  if (!sampling.check() || !check_ids(config, "prompt", prompt, count)) return false;
  n_window_ = std::min<size_t>(count, config.ctx);
  std::memcpy(window_, prompt + (count - n_window_), n_window_ * sizeof(uint32_t));
  n_cached_ = 0;
  position_ = count;
  sampling_ = sampling;
  active_ = true;
  return true;
}

bool Generation::ready() const {
  if (!active_) return fail("no generation is under way; call generate_begin first");
  if (position_ > UINT32_MAX) return fail("the sequence has 4294967296 tokens; begin a new one");
  return true;
}

size_t Generation::cached(uint64_t weights_version) const {
  return n_cached_ + 1 == n_window_ && weights_version_ == weights_version ? n_cached_ : 0;
}

bool Generation::choose(const Config& config, const float* logits, uint64_t weights_version,
                        uint32_t* token) {
  n_cached_ = n_window_;
  weights_version_ = weights_version;
  const double u = philox::uniform(
      philox::element(sampling_.seed, static_cast<uint32_t>(position_), stream_c3(Use::sampling), 0));
  if (!choose_token(choice_, logits, config.vocab_size, sampling_, u, token)) return false;
  ++position_;
  if (n_window_ == config.ctx) {
    const size_t dropped = std::max<size_t>(1, n_window_ / 4);
    n_window_ -= dropped;
    std::memmove(window_, window_ + dropped, n_window_ * sizeof(uint32_t));
    n_cached_ = 0;
  }
  window_[n_window_++] = *token;
  return true;
}

GenerationBuffers GenerationBuffers::carve(const Config& config, Carver& carver) {
  const uint64_t C = config.d_model, F = config.mlp(), V = config.vocab_size;
  GenerationBuffers g;
  g.cache = {carver.take<float>(2 * config.n_layer * config.ctx * C), static_cast<size_t>(config.ctx),
             static_cast<size_t>(C)};
  g.row.x = carver.take<float>(C);
  g.row.mid = carver.take<float>(C);
  g.row.norm = carver.take<float>(C);
  g.row.qkv = carver.take<float>(3 * C);
  g.row.attn = carver.take<float>(C);
  g.row.act = carver.take<float>(F);
  g.row.mean = carver.take<float>(1);
  g.row.rstd = carver.take<float>(1);
  g.logits = carver.take<float>(V);
  return g;
}

bool Session::generate_begin(const uint32_t* prompt, size_t count, const Sampling& sampling) {
  return generation_.begin(config_, prompt, count, sampling);
}

/** By one decode where the cache holds the tokens before the last one, else by a prefill. */
bool Session::generate_next(uint32_t* token) {
  if (!generation_.ready()) return false;
  const Model m = model();
  const size_t n_cached = generation_.cached(weights_version_), n_window = generation_.n_window();
  const float* out = generation_buffers_.row.norm;
  if (n_cached > 0) {
    decode(m, generation_buffers_.row, generation_buffers_.cache, generation_.window()[n_cached], n_cached);
  } else {
    const Batch batch{.tokens = generation_.window(), .B = 1, .T = n_window};
    pass_over(1, n_window);
    forward(m, batch, &generation_buffers_.cache);
    out = m.a(plan_.ln_f) + (n_window - 1) * config_.d_model;
  }
  tabgpt::logits(m, out, 1, generation_buffers_.logits);
  return generation_.choose(config_, generation_buffers_.logits, weights_version_, token);
}

}  // namespace tabgpt
