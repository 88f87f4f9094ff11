/** Which windows of the corpus a step or an evaluation sees (DESIGN.md, Randomness). */
#pragma once

#include <cstddef>
#include <cstdint>

#include "tabgpt/arena.hpp"
#include "tabgpt/config.hpp"

namespace tabgpt {

/** Uses of c3's bits 31-24 that draw windows. */
constexpr uint32_t kUseBatch = 2, kUseEvaluation = 5;

/** Room for one batch. */
struct BatchBuffers {
  uint32_t* tokens = nullptr;   ///< [B,T]
  uint32_t* targets = nullptr;  ///< [B,T], the tokens one further

  static BatchBuffers carve(const Config& config, Carver& carver);
};

/** A contiguous part of the corpus. */
struct Part {
  const uint32_t* tokens = nullptr;
  size_t count = 0;
};

/** Training part and, last, the validation part. */
struct Split {
  Part train, validation;

  /** The last count div 10 validate. Errors (false): a part is too short; both lengths are named. */
  static bool of(const uint32_t* tokens, size_t count, size_t ctx, Split* split);
};

/** B windows of T tokens at random starts, of stream (seed, c2, c3). part.count > T. */
void random_windows(const Part& part, size_t B, size_t T, uint32_t seed, uint32_t c2, uint32_t c3,
                    const BatchBuffers& out);

/** B windows of T tokens at start, start + T, ... */
void successive_windows(const Part& part, size_t start, size_t B, size_t T, const BatchBuffers& out);

/** An evaluation between its calls. */
struct Evaluation {
  bool active = false;
  Part part;
  size_t n_batches = 0;  ///< seeded batches; 0: the whole split
  size_t next = 0;       ///< batch number, or the whole split's next start
  double sum = 0;        ///< of batch means, or of losses
};

}  // namespace tabgpt
