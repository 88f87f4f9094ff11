/** What a session reports of its last step, loss or evaluation. */
#pragma once

#include <string_view>

namespace tabgpt {

struct Metrics {
  double loss = 0, lr = 0, grad_norm = 0, finite = 1, tokens = 0;

  /** Errors (NaN): not one of the names above. */
  double of_name(const char* name) const;
};

}  // namespace tabgpt
