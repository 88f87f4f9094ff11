#include "tabgpt/batches.hpp"

#include <cstring>

#include "philox.hpp"
#include "tabgpt/error.hpp"

namespace tabgpt {
namespace {

/** presets.json's validation_fraction, 0.1, as a divisor. */
constexpr size_t kValidationDivisor = 10;

void copy_window(const Part& part, size_t start, size_t row, size_t T, const BatchBuffers& out) {
  std::memcpy(out.tokens + row * T, part.tokens + start, T * sizeof(uint32_t));
  std::memcpy(out.targets + row * T, part.tokens + start + 1, T * sizeof(uint32_t));
}

}  // namespace

BatchBuffers BatchBuffers::carve(const Config& config, Carver& carver) {
  BatchBuffers buffers;
  buffers.tokens = carver.take<uint32_t>(config.max_rows());
  buffers.targets = carver.take<uint32_t>(config.max_rows());
  return buffers;
}

bool Split::of(const uint32_t* tokens, size_t count, size_t ctx, Split* split) {
  const size_t n_validation = count / kValidationDivisor, n_train = count - n_validation;
  if (n_train < ctx + 1 || n_validation < 2) {
    return fail(
        "the corpus has %zu tokens: %zu to train on and %zu to validate; a context of %zu needs at least %zu "
        "and 2. Use a longer text or a smaller ctx",
        count, n_train, n_validation, ctx, ctx + 1);
  }
  *split = {{tokens, n_train}, {tokens + n_train, n_validation}};
  return true;
}

void random_windows(const Part& part, size_t B, size_t T, uint32_t seed, uint32_t c2, uint32_t c3,
                    const BatchBuffers& out) {
  const uint64_t n_starts = part.count - T;
  for (size_t b = 0; b < B; ++b) {
    // The high half of a 32 x 64-bit product; a corpus is shorter than 2^32 tokens.
    const uint64_t start = (philox::element(seed, c2, c3, b) * n_starts) >> 32;
    copy_window(part, static_cast<size_t>(start), b, T, out);
  }
}

void successive_windows(const Part& part, size_t start, size_t B, size_t T, const BatchBuffers& out) {
  for (size_t b = 0; b < B; ++b) copy_window(part, start + b * T, b, T, out);
}

}  // namespace tabgpt
