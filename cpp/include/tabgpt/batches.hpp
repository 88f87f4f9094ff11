/** Which windows of the corpus a step or an evaluation sees (DESIGN.md, Randomness). */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tabgpt/arena.hpp"
#include "tabgpt/config.hpp"

namespace tabgpt {

/** What one pass reads. */
struct Batch {
  const uint32_t* tokens = nullptr;   ///< [B,T]
  const uint32_t* targets = nullptr;  ///< [B,T]; for the head only
  size_t B = 0, T = 0;
  bool train = false;  ///< apply dropout of (step, micro)
  uint32_t step = 0, micro = 0;

  size_t rows() const { return B * T; }
};

/** Errors (false): no rows, T above ctx, more rows than batch_size * ctx. */
bool check_batch(const Config& config, const Batch& batch);

/** Errors (false): a null pointer, an id not below vocab_size; the text names `what`. */
bool check_ids(const Config& config, const char* what, const uint32_t* ids, size_t count);

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

/** A copy of the corpus, split. */
class Corpus {
 public:
  /** Errors (false): an id not below vocab_size, too short a corpus (what was there stays); no memory. */
  bool set(const Config& config, const uint32_t* tokens, size_t count);
  bool empty() const { return split_.train.tokens == nullptr; }
  const Split& split() const { return split_; }

 private:
  Arena arena_;
  Split split_;
};

/** The batch of a step's micro-batch, its windows at random starts, written to `out`. */
Batch training_batch(const Config& config, const Part& part, uint32_t step, uint32_t micro,
                     const BatchBuffers& out);

/** A mean loss over a split, between its batches. */
class Evaluation {
 public:
  /** split: "train" or "val". n_batches: seeded ones; 0 is the whole split, as is any where it is short. */
  bool begin(const Config& config, const Corpus& corpus, std::string_view split, size_t n_batches);
  void cancel() { active_ = false; }
  /** The next batch, written to `out`. Errors (false): begin() was not called. */
  bool next(const Config& config, const BatchBuffers& out, Batch* batch);
  /** Takes the sum of that batch's losses; false once mean() holds the result. */
  bool add(double sum);
  double mean() const { return mean_; }

 private:
  bool active_ = false;
  Part part_;
  size_t n_batches_ = 0;  ///< 0: the whole split
  size_t next_ = 0;       ///< batch number, or the whole split's next start
  size_t rows_ = 0;       ///< of the batch that next() gave
  double sum_ = 0;        ///< of batch means, or of losses
  double mean_ = 0;
};

}  // namespace tabgpt
