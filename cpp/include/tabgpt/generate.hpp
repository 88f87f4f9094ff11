/** Sampling: a KV cache, a window of at most ctx tokens, and the choice of the next. */
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

/** All that sampling writes to, apart from a prefill's activations. */
struct GenerationBuffers {
  KvCache cache;
  DecodeRow row;
  float* logits = nullptr;     ///< [V]
  uint32_t* order = nullptr;   ///< [V] ids, likeliest first
  double* weights = nullptr;   ///< [V] of the kept ids
  uint32_t* window = nullptr;  ///< [ctx] tokens seen

  static GenerationBuffers carve(const Config& config, Carver& carver);
};

/** A generation between its calls. */
struct Generation {
  GenerationBuffers buffers;
  Sampling sampling;
  bool active = false;
  size_t n_window = 0;           ///< tokens in the window
  size_t n_cached = 0;           ///< of those, how many the cache holds
  uint64_t position = 0;         ///< index of the next token in the whole sequence
  uint64_t weights_version = 0;  ///< that the cache was made with
};

/** The token that u in [0, 1) decides, from float32 logits[V], in float64. Errors (false): logits not finite.
 */
bool choose_token(const GenerationBuffers& buffers, size_t V, const Sampling& sampling, double u,
                  uint32_t* token);

}  // namespace tabgpt
