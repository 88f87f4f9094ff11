/**
 * A model in memory: arenas, pool, corpus, and what a host may ask of them.
 *
 * Everything a host does goes through these functions. Calls may come in any
 * order: an evaluation and a generation each keep a state of their own between
 * their calls, and a step in between leaves them valid (the evaluation goes on
 * with the new weights; the generation refills its cache from its window).
 * What a pass overwrites: the batch, the activations and their gradients
 * ("probe" reads those of the last pass), and for loss_and_grads and step the
 * gradients. Pointers to named tensors hold until the session is destroyed.
 */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tabgpt/arena.hpp"
#include "tabgpt/batches.hpp"
#include "tabgpt/config.hpp"
#include "tabgpt/generate.hpp"
#include "tabgpt/layout.hpp"
#include "tabgpt/memory.hpp"
#include "tabgpt/metrics.hpp"
#include "tabgpt/model.hpp"
#include "tabgpt/plan.hpp"
#include "threads.hpp"

namespace tabgpt {

/** A tensor by name. Activations have the sizes of the last pass, parameters their own. */
struct NamedTensor {
  std::string name;
  float* data;
  uint32_t slot;                  ///< of the plan, or kNoSlot for one shaped as a parameter
  std::array<uint64_t, 2> shape;  ///< then: shape[1] == 0 is a vector
};

class Session {
 public:
  /**
   * Allocates all that the plan needs, zeroed. `config` must have passed check().
   * Errors (nullptr): n_threads 0 or above Pool::max_threads; a size this build cannot address; no memory.
   */
  static std::unique_ptr<Session> open(const Config& config, Mode mode, size_t n_threads);

  void init_weights();
  /** Errors (false): an id not below vocab_size, too short a corpus, no memory. */
  bool set_tokens(const uint32_t* tokens, size_t count);

  /** Errors (false): mode "infer", no tokens, step number beyond 32 bits. */
  bool step();
  bool set_step_number(uint64_t step);
  uint64_t step_number() const { return step_; }

  /** Errors (false): no rows, more rows than batch_size * ctx, T > ctx, an id not below vocab_size. */
  bool loss(const Batch& batch);
  bool loss_and_grads(const Batch& batch);
  /** out[B,T,V]. Any B: the rows go through in parts. */
  bool logits(const uint32_t* tokens, size_t B, size_t T, float* out);

  /** n_batches 0: the whole split. */
  bool evaluate_begin(std::string_view split, size_t n_batches);
  /** One batch; *more is false once metrics().loss holds the mean. */
  bool evaluate_next(bool* more);

  bool generate_begin(const uint32_t* prompt, size_t count, const Sampling& sampling);
  bool generate_next(uint32_t* token);

  const Metrics& metrics() const { return metrics_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  /** nullptr (and an error) for an unknown name. */
  const NamedTensor* find(const char* name) const;
  /** The sizes of a named tensor; returns how many there are (at most 3). */
  size_t shape(const NamedTensor& tensor, uint64_t dims[3]) const;
  const Pool& pool() const { return pool_; }

 private:
  Session(const Config& config, Mode mode, size_t n_threads);
  bool allocate(const Memory& memory);
  void name_tensors();
  Model model();
  bool needs_gradients(const char* what) const;
  void pass_over(size_t B, size_t T) { seen_B_ = B, seen_T_ = T; }
  void update(double norm);

  const Config config_;
  const Layout layout_;
  const Plan plan_;
  Pool pool_;
  Arena parameters_, gradients_, adam_m_, adam_v_, kv_cache_, workspace_, batch_arena_;
  Pieces activations_;
  BatchBuffers batch_;
  Corpus corpus_;
  Evaluation evaluation_;
  Generation generation_;
  GenerationBuffers generation_buffers_;
  Metrics metrics_;
  uint64_t step_ = 0;
  uint64_t weights_version_ = 0;  ///< one more whenever the core changes a weight
  size_t seen_B_, seen_T_;        ///< sizes of the last pass
  std::vector<NamedTensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace tabgpt
