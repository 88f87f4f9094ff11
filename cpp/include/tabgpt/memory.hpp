/** Bytes by role, known before anything is allocated; what every host prints and checks. */
#pragma once

#include <cstddef>
#include <cstdint>

#include "tabgpt/config.hpp"
#include "tabgpt/layout.hpp"
#include "tabgpt/plan.hpp"

namespace tabgpt {

/** 64-bit on every platform: a 32-bit planner must be able to say that a model does not fit it. */
struct Memory {
  uint64_t parameters = 0, gradients = 0, adam_m = 0, adam_v = 0;
  uint64_t activations =
      0;                   ///< of one pass over [batch_size, ctx]; one chunk of the head's logits among them
  uint64_t kv_cache = 0;   ///< sampling: keys, values, one token's rows, logits and their order
  uint64_t workspace = 0;  ///< the kernels' scratch
  uint64_t tokens = 0;     ///< the corpus and one batch of tokens and targets

  uint64_t total() const;
  /** Errors (false): not one of the names above or "total". */
  bool of_role(const char* role, uint64_t* bytes) const;
};

Memory plan_memory(const Config& config, const Layout& layout, const Plan& plan, size_t n_threads,
                   uint64_t n_tokens);

}  // namespace tabgpt
