#include "tabgpt/metrics.hpp"

#include <limits>
#include <utility>

#include "tabgpt/error.hpp"

namespace tabgpt {

double Metrics::of_name(const char* name) const {
  const std::string_view wanted = name == nullptr ? "" : name;
  const std::pair<std::string_view, double> known[] = {
      {"loss", loss}, {"lr", lr}, {"grad_norm", grad_norm}, {"finite", finite}, {"tokens", tokens}};
  for (const auto& [metric, value] : known) {
    if (metric == wanted) return value;
  }
  fail("unknown metric '%.100s'; there are loss, lr, grad_norm, finite and tokens",
       name == nullptr ? "" : name);
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tabgpt
