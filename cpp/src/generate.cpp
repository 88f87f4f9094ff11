/** Writing on: prefill the window, then one token at a time against the cache. */
#include "tabgpt/generate.hpp"

#include <algorithm>
#include <cstring>

#include "philox.hpp"
#include "tabgpt/error.hpp"
#include "tabgpt/session.hpp"

namespace tabgpt {

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
  g.order = carver.take<uint32_t>(V);
  g.weights = carver.take<double>(V);
  g.window = carver.take<uint32_t>(config.ctx);
  return g;
}

bool Session::generate_begin(const uint32_t* prompt, size_t count, const Sampling& sampling) {
  generation_.active = false;
  if (count == 0) return fail("the prompt is empty; give at least one token");
  if (!sampling.check() || !check_ids("prompt", prompt, count)) return false;
  Generation& g = generation_;
  g.n_window = std::min<size_t>(count, config_.ctx);
  std::memcpy(g.buffers.window, prompt + (count - g.n_window), g.n_window * sizeof(uint32_t));
  g.n_cached = 0;
  g.position = count;
  g.sampling = sampling;
  g.active = true;
  return true;
}

/**
 * The logits of the window's last token: by one decode where the cache holds the
 * tokens before it under the present weights, else by a prefill. The next token
 * is then chosen and appended; a full window first drops its oldest quarter,
 * which empties the cache, since positions are absolute.
 */
bool Session::generate_next(uint32_t* token) {
  Generation& g = generation_;
  if (!g.active) return fail("no generation is under way; call generate_begin first");
  if (g.position > UINT32_MAX) return fail("the sequence has 4294967296 tokens; begin a new one");
  const Model m = model();
  const float* out = g.buffers.row.norm;
  if (g.n_cached + 1 == g.n_window && g.n_cached > 0 && g.weights_version == weights_version_) {
    decode(m, g.buffers.row, g.buffers.cache, g.buffers.window[g.n_cached], g.n_cached);
  } else {
    const Batch batch{.tokens = g.buffers.window, .B = 1, .T = g.n_window};
    pass_over(1, g.n_window);
    forward(m, batch, &g.buffers.cache);
    out = m.a(plan_.ln_f) + (g.n_window - 1) * config_.d_model;
  }
  g.n_cached = g.n_window;
  g.weights_version = weights_version_;
  tabgpt::logits(m, out, 1, g.buffers.logits);

  constexpr uint32_t use = 4;
  const double u =
      philox::uniform(philox::element(g.sampling.seed, static_cast<uint32_t>(g.position), use << 24, 0));
  if (!choose_token(g.buffers, config_.vocab_size, g.sampling, u, token)) return false;
  ++g.position;
  if (g.n_window == config_.ctx) {
    const size_t dropped = std::max<size_t>(1, g.n_window / 4);
    g.n_window -= dropped;
    std::memmove(g.buffers.window, g.buffers.window + dropped, g.n_window * sizeof(uint32_t));
    g.n_cached = 0;
  }
  g.buffers.window[g.n_window++] = *token;
  return true;
}

}  // namespace tabgpt
