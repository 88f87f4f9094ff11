/**
 * Training on a GPU, seen from the core: the plan, and for each pass what the
 * host is to upload. The host runs programs and hands back what they leave; the
 * core draws batches, keeps the step number, sums losses and chooses tokens, as
 * the CPU's Session does and with the same code.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/plan.hpp"
#include "tabgpt/arena.hpp"
#include "tabgpt/batches.hpp"
#include "tabgpt/generate.hpp"
#include "tabgpt/metrics.hpp"

namespace tabgpt::gpu {

class Session {
 public:
  /** Errors (nullptr): a limit passed, no memory. `config` must have passed check(). */
  static std::unique_ptr<Session> open(const Config& config, const Options& options);

  const Plan& plan() const { return *plan_; }
  /** The plan's programs for batches [B,T]; valid until the next call. Errors (nullptr): too large a batch.
   */
  const char* programs(size_t B, size_t T);
  /** The bytes to upload to the buffer "inputs" before the pass that was filled last. */
  const void* inputs() const { return inputs_.as<void>(); }

  /** Errors (false): an unknown name. */
  bool initial_values(std::string_view parameter, float* out) const;
  void weights_changed() { ++weights_version_; }
  bool set_tokens(const uint32_t* tokens, size_t count);
  bool set_step_number(uint64_t step);
  uint64_t step_number() const { return step_; }

  /** Inputs of a micro-batch of the present step, and of its update. Errors (false): mode infer, no corpus.
   */
  bool fill_step(size_t micro);
  /** The step's programs were submitted: the next one is due. */
  void end_step();
  /** The metrics of that step from the tensor "stats", which may be read steps later. */
  void read_stats(uint64_t step, const float* stats);

  /** Inputs of a batch that the host brings. Errors (false): as the CPU's loss_and_grads. */
  bool fill_batch(const Batch& batch);
  /** The mean of that batch's losses [B,T]; NaN where one of them is not finite. */
  double mean_loss(const float* losses) const;

  bool evaluate_begin(std::string_view split, size_t n_batches);
  bool evaluate_fill();
  /** Takes that batch's losses, [batch_size, ctx] of them; *more is false once metrics().loss holds the mean.
   */
  bool evaluate_next(const float* losses, bool* more);

  bool generate_begin(const uint32_t* prompt, size_t count, const Sampling& sampling);
  /** Inputs of the next token's decode, and of the prefill that is needed before it when *prefill. */
  bool generate_fill(bool* prefill);
  /** logits[V], which decode left -> the next token. */
  bool generate_next(const float* logits, uint32_t* token);

  const Metrics& metrics() const { return metrics_; }

 private:
  Session(const Config& config, std::unique_ptr<Plan> plan);
  template <typename T>
  T* input(uint32_t tensor) const;
  void fill(const Batch& batch, size_t row_length, float loss_scale);
  void index_tokens(size_t rows);

  const Config config_;
  const Layout layout_;
  const std::unique_ptr<Plan> plan_;
  Arena inputs_, batch_arena_, generation_arena_;
  BatchBuffers batch_;
  Corpus corpus_;
  Evaluation evaluation_;
  Generation generation_;
  Metrics metrics_;
  std::string programs_;
  size_t rows_ = 0, length_ = 0;  ///< sequences of the batch that was filled last, and their tokens
  uint64_t step_ = 0;
  uint64_t weights_version_ = 0;  ///< one more whenever the host says that a weight changed
};

}  // namespace tabgpt::gpu
