#include "tabgpt/batches.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "philox.hpp"
#include "tabgpt/error.hpp"
#include "tabgpt/streams.hpp"

namespace tabgpt {
namespace {

/** presets.json's validation_fraction, 0.1, as a divisor. */
constexpr size_t kValidationDivisor = 10;

using ull = unsigned long long;

void copy_window(const Part& part, size_t start, size_t row, size_t T, const BatchBuffers& out) {
  std::memcpy(out.tokens + row * T, part.tokens + start, T * sizeof(uint32_t));
  std::memcpy(out.targets + row * T, part.tokens + start + 1, T * sizeof(uint32_t));
}

/** B windows of T tokens at random starts, of stream (seed, c2, c3). part.count > T. */
void random_windows(const Part& part, size_t B, size_t T, uint32_t seed, uint32_t c2, uint32_t c3,
                    const BatchBuffers& out) {
  const uint64_t n_starts = part.count - T;
  for (size_t b = 0; b < B; ++b) {
    // The high half of a 32 x 64-bit product; a corpus is shorter than 2^32 tokens.
    const uint64_t start = (philox::element(seed, c2, c3, b) * n_starts) >> 32;
    copy_window(part, static_cast<size_t>(start), b, T, out);
  }
}

/** B windows of T tokens at start, start + T, ... */
void successive_windows(const Part& part, size_t start, size_t B, size_t T, const BatchBuffers& out) {
  for (size_t b = 0; b < B; ++b) copy_window(part, start + b * T, b, T, out);
}

}  // namespace

bool check_batch(const Config& config, const Batch& batch) {
  if (batch.B == 0 || batch.T == 0) {
    return fail("the batch is %zu x %zu tokens; it needs at least one", batch.B, batch.T);
  }
  if (batch.T > config.ctx) {
    return fail("the batch has windows of %zu tokens; ctx is %llu: cut them", batch.T, ull(config.ctx));
  }
  if (batch.B > config.max_rows() / batch.T) {
    return fail(
        "the batch is %zu x %zu tokens; this session planned for batch_size x ctx = %llu: use fewer rows or "
        "open it with a larger batch_size",
        batch.B, batch.T, ull(config.max_rows()));
  }
  return true;
}

bool check_ids(const Config& config, const char* what, const uint32_t* ids, size_t count) {
  if (ids == nullptr) return fail("%s is a null pointer; pass the ids", what);
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] >= config.vocab_size) {
      return fail("%s[%zu] is %lu; ids must be below vocab_size, %llu", what, i,
                  static_cast<unsigned long>(ids[i]), ull(config.vocab_size));
    }
  }
  return true;
}

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

bool Corpus::set(const Config& config, const uint32_t* tokens, size_t count) {
  Split split;
  if (!check_ids(config, "tokens", tokens, count) || !Split::of(tokens, count, config.ctx, &split)) {
    return false;
  }
  split_ = {};
  if (!arena_.allocate("tokens", 4 * uint64_t{count})) return false;
  std::memcpy(arena_.as<void>(), tokens, count * sizeof(uint32_t));
  return Split::of(arena_.as<uint32_t>(), count, config.ctx, &split_);
}

Batch training_batch(const Config& config, const Part& part, uint32_t step, uint32_t micro,
                     const BatchBuffers& out) {
  const size_t B = config.batch_size, T = config.ctx;
  random_windows(part, B, T, static_cast<uint32_t>(config.seed), step, stream_c3(Use::batch, micro), out);
  return {out.tokens, out.targets, B, T, true, step, micro};
}

bool Evaluation::begin(const Config& config, const Corpus& corpus, std::string_view split, size_t n_batches) {
  const bool validation = split == "val";
  if (!validation && split != "train") {
    return fail("the split is '%.100s'; it must be train or val", std::string(split).c_str());
  }
  if (corpus.empty()) return fail("an evaluation needs a corpus; call set_tokens first");
  if (n_batches > UINT32_MAX)
    return fail("%zu evaluation batches; random streams count to 4294967295", n_batches);
  const Part& part = validation ? corpus.split().validation : corpus.split().train;
  *this = {};
  active_ = true;
  part_ = part;
  n_batches_ = part.count < config.ctx + 1 ? 0 : n_batches;
  return true;
}

bool Evaluation::next(const Config& config, const BatchBuffers& out, Batch* batch) {
  if (!active_) return fail("no evaluation is under way; call evaluate_begin first");
  size_t B = config.batch_size, T = config.ctx;
  if (n_batches_ > 0) {
    random_windows(part_, B, T, static_cast<uint32_t>(config.seed), static_cast<uint32_t>(next_),
                   stream_c3(Use::evaluation), out);
  } else {
    const size_t rest = part_.count - 1 - next_;
    B = rest < T ? 1 : std::min(B, rest / T);
    T = std::min(T, rest);  // the shorter tail is a batch of its own
    successive_windows(part_, next_, B, T, out);
  }
  *batch = {.tokens = out.tokens, .targets = out.targets, .B = B, .T = T};
  rows_ = batch->rows();
  return true;
}

bool Evaluation::add(double sum) {
  const bool seeded = n_batches_ > 0;
  sum_ += seeded ? sum / static_cast<double>(rows_) : sum;
  next_ += seeded ? 1 : rows_;
  const size_t whole = seeded ? n_batches_ : part_.count - 1;
  active_ = next_ < whole;
  if (!active_) mean_ = sum_ / static_cast<double>(whole);
  return active_;
}

}  // namespace tabgpt
