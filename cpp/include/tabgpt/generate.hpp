/** Sampling: a window of at most ctx tokens, the choice of the next, and what the host's model writes to. */
#pragma once

#include <cstddef>
#include <cstdint>

#include "tabgpt/arena.hpp"
#include "tabgpt/config.hpp"
#include "tabgpt/model.hpp"

namespace tabgpt {

struct Sampling {
  double temperature = 1;  ///< 0: the likeliest
  size_t top_k = 0;        ///< 0: all
  double top_p = 1;
  uint32_t seed = 0;

  /** Errors (false): out of presets.json's ranges. */
  bool check() const;
};

/** Room to choose a token in. */
struct ChoiceBuffers {
  uint32_t* order = nullptr;  ///< [V] ids, likeliest first
  double* weights = nullptr;  ///< [V] of the kept ids

  static ChoiceBuffers carve(const Config& config, Carver& carver);
};

/** The token that u in [0, 1) decides, from float32 logits[V], in float64. Errors (false): logits not finite.
 */
bool choose_token(const ChoiceBuffers& buffers, const float* logits, size_t V, const Sampling& sampling,
                  double u, uint32_t* token);

/**
 * A generation between its calls: which tokens the model sees, and the next one.
 *
 * For each token the host asks cached(), computes the logits of the window's last
 * token (from cached() tokens in its KV cache, or from none: a prefill), and hands
 * them to choose(). A full window first drops its oldest quarter, which empties
 * the cache, since positions are absolute.
 */
class Generation {
 public:
  /** Places for the window [ctx] and for choosing. */
  void carve(const Config& config, Carver& carver);
  void cancel() { active_ = false; }
  /** Errors (false): an empty prompt, sampling out of range, an id not below vocab_size. */
  bool begin(const Config& config, const uint32_t* prompt, size_t count, const Sampling& sampling);
  /** Errors (false): no generation under way, 2^32 tokens. */
  bool ready() const;

  const uint32_t* window() const { return window_; }
  size_t n_window() const { return n_window_; }
  /** Tokens of the window that a cache made with weights of this version holds: all but the last, or 0. */
  size_t cached(uint64_t weights_version) const;
  /** logits[V] of the window's last token -> the next token, appended. Errors (false): logits not finite. */
  bool choose(const Config& config, const float* logits, uint64_t weights_version, uint32_t* token);

 private:
  ChoiceBuffers choice_;
  uint32_t* window_ = nullptr;
  Sampling sampling_;
  bool active_ = false;
  size_t n_window_ = 0;           ///< tokens in the window
  size_t n_cached_ = 0;           ///< of those, how many the cache holds
  uint64_t position_ = 0;         ///< index of the next token in the whole sequence
  uint64_t weights_version_ = 0;  ///< that the cache was made with
};

/** What the CPU's sampling writes to, apart from a prefill's activations. */
struct GenerationBuffers {
  KvCache cache;
  DecodeRow row;
  float* logits = nullptr;  ///< [V]

  static GenerationBuffers carve(const Config& config, Carver& carver);
};

}  // namespace tabgpt
