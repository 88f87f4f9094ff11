/**
 * What a GPU is to do for a config, as data: buffers, named tensors, and programs
 * of dispatches. A host creates the buffers and runs the programs; it computes
 * nothing itself.
 *
 *   a step        begin_step, then forward and backward for each micro-batch, then update
 *   an evaluation forward, losses           logits of chunk k   forward, logits.k
 *   a new token   prefill where the cache is empty, then decode
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/builder.hpp"
#include "gpu/limits.hpp"
#include "gpu/model.hpp"
#include "gpu/variants.hpp"
#include "tabgpt/config.hpp"
#include "tabgpt/layout.hpp"
#include "tabgpt/memory.hpp"
#include "tabgpt/plan.hpp"

namespace tabgpt::gpu {

struct Options {
  Mode mode = Mode::train;
  Limits limits;
  Variants variants;
};

class Plan {
 public:
  /** Errors (nullptr): a limit passed; the text has limit, need and the largest setting that fits. */
  static std::unique_ptr<Plan> make(const Config& config, const Options& options);

  const std::string& json() const { return json_; }
  /** The programs that depend on a batch's shape, for another one that make()'s has room for. */
  std::string json_of_shape(uint64_t B, uint64_t T) const;
  /** Bytes of the buffers, by role. */
  Memory memory() const;
  const Tensor& tensor(uint32_t index) const { return builder_.tensors[index]; }
  Mode mode() const { return options_.mode; }
  const Fixed& fixed() const { return fixed_; }

 private:
  Plan(const Config& config, const Options& options);
  static Violation try_out(const Config& config, const Options& options);
  void fix_inputs();
  void fix_arenas();
  void passes(Builder& builder, uint64_t B, uint64_t T) const;
  Model model(Builder& builder, uint64_t B, uint64_t T) const;

  const Config config_;
  const Options options_;
  const Layout layout_;
  Builder builder_;
  Fixed fixed_;
  std::vector<Buffer> buffers_;
  uint64_t words_capacity_ = 0;  ///< bytes for one shape's words; the buffer holds two
  std::string json_;
};

}  // namespace tabgpt::gpu
