/** The choice of a token from logits: temperature, top-k, top-p, in float64. */
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tabgpt/error.hpp"
#include "tabgpt/generate.hpp"

namespace tabgpt {

bool Sampling::check() const {
  if (!(temperature >= 0 && temperature <= 100)) {
    return fail("temperature is %.12g; it must be from 0 (always the likeliest) to 100", temperature);
  }
  if (!(top_p > 0 && top_p <= 1)) {
    return fail("top_p is %.12g; it must be above 0 and at most 1 (1 keeps all)", top_p);
  }
  return true;
}

ChoiceBuffers ChoiceBuffers::carve(const Config& config, Carver& carver) {
  ChoiceBuffers buffers;
  buffers.order = carver.take<uint32_t>(config.vocab_size);
  buffers.weights = carver.take<double>(config.vocab_size);
  return buffers;
}

bool choose_token(const ChoiceBuffers& buffers, const float* z, size_t V, const Sampling& sampling, double u,
                  uint32_t* token) {
  for (size_t id = 0; id < V; ++id) {
    if (!std::isfinite(z[id])) {
      return fail(
          "the logit of token %zu is %g, so no token can be chosen: the weights are damaged; load an earlier "
          "checkpoint",
          id, static_cast<double>(z[id]));
    }
  }
  if (sampling.temperature == 0) {
    *token = static_cast<uint32_t>(std::max_element(z, z + V) - z);  // the first of equals
    return true;
  }
  uint32_t* order = buffers.order;
  double* weights = buffers.weights;
  size_t n_kept = sampling.top_k == 0 ? V : std::min(sampling.top_k, V);
  std::iota(order, order + V, 0u);
  std::partial_sort(order, order + n_kept, order + V,
                    [z](uint32_t a, uint32_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
  double sum = 0;
  for (size_t j = 0; j < n_kept; ++j) {
    // (z - top) / temperature, not z / temperature - top / temperature: no overflow however small it is.
    weights[j] = std::exp((static_cast<double>(z[order[j]]) - z[order[0]]) / sampling.temperature);
    sum += weights[j];
  }
  double cumulative = 0;  // weights become cumulative probabilities, up to top_p
  for (size_t j = 0; j < n_kept; ++j) {
    cumulative += weights[j] / sum;
    weights[j] = cumulative;
    if (cumulative >= sampling.top_p) n_kept = j + 1;
  }
  const double threshold = u * weights[n_kept - 1];
  const size_t chosen = static_cast<size_t>(std::upper_bound(weights, weights + n_kept, threshold) - weights);
  *token = order[std::min(chosen, n_kept - 1)];
  return true;
}

}  // namespace tabgpt
