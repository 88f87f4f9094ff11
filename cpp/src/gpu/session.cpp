#include "gpu/session.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "tabgpt/error.hpp"
#include "tabgpt/optimizer.hpp"

namespace tabgpt::gpu {
namespace {

using ull = unsigned long long;

/** A target that marks a row as one that does not count (shaders/cross_entropy.wgsl). */
constexpr uint32_t kNoTarget = ~uint32_t{0};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Session::Session(const Config& config, std::unique_ptr<Plan> plan)
    : config_(config), layout_(config), plan_(std::move(plan)) {}

std::unique_ptr<Session> Session::open(const Config& config, const Options& options) {
  std::unique_ptr<Plan> plan = Plan::make(config, options);
  if (plan == nullptr) return nullptr;
  std::unique_ptr<Session> session(new Session(config, std::move(plan)));
  Carver batch, generation;
  BatchBuffers::carve(config, batch);
  Generation().carve(config, generation);
  if (!session->inputs_.allocate("tokens", session->plan().memory().tokens) ||
      !session->batch_arena_.allocate("tokens", batch.bytes()) ||
      !session->generation_arena_.allocate("tokens", generation.bytes())) {
    return nullptr;
  }
  Carver batch_carver(session->batch_arena_.as<void>()),
      generation_carver(session->generation_arena_.as<void>());
  session->batch_ = BatchBuffers::carve(config, batch_carver);
  session->generation_.carve(config, generation_carver);
  return session;
}

const char* Session::programs(size_t B, size_t T) {
  if (!check_batch(config_, {.B = B, .T = T})) return nullptr;
  programs_ = plan_->json_of_shape(B, T);
  return programs_.c_str();
}

bool Session::initial_values(std::string_view parameter, float* out) const {
  for (uint32_t number = 0; number < layout_.parameters.size(); ++number) {
    if (layout_.parameters[number].name != parameter) continue;
    layout_.initial_values(number, static_cast<uint32_t>(config_.seed), 0, layout_.parameters[number].count(),
                           out);
    return true;
  }
  return fail("no parameter is named '%.200s'", std::string(parameter).c_str());
}

bool Session::set_tokens(const uint32_t* tokens, size_t count) {
  const bool done = corpus_.set(config_, tokens, count);
  if (done || corpus_.empty()) evaluation_.cancel();  // its windows are of the old corpus
  return done;
}

bool Session::set_step_number(uint64_t step) {
  if (!check_step_number(step)) return false;
  step_ = step;
  return true;
}

template <typename T>
T* Session::input(uint32_t tensor) const {
  return reinterpret_cast<T*>(inputs_.as<char>() + plan_->tensor(tensor).offset);
}

/** Which rows hold each token, in order (shaders/embedding_wte.wgsl): a counting sort. */
void Session::index_tokens(size_t rows) {
  const Fixed& fixed = plan_->fixed();
  if (plan_->mode() == Mode::infer) return;
  const uint32_t* tokens = input<uint32_t>(fixed.tokens);
  uint32_t* starts = input<uint32_t>(fixed.token_starts);
  uint32_t* held = input<uint32_t>(fixed.token_rows);
  const size_t V = config_.vocab_size;
  std::fill(starts, starts + V + 1, 0u);
  for (size_t row = 0; row < rows; ++row) ++starts[tokens[row] + 1];
  for (size_t id = 0; id < V; ++id) starts[id + 1] += starts[id];
  for (size_t row = 0; row < rows; ++row) held[starts[tokens[row]]++] = static_cast<uint32_t>(row);
  // Each start has become its token's end, which is the next one's start.
  std::memmove(starts + 1, starts, V * sizeof(uint32_t));
  starts[0] = 0;
}

/**
 * Uploads' bytes of a batch whose sequences take up row_length tokens each: where
 * that is more than batch.T, or the plan has more rows, what is behind is padding
 * that no loss counts.
 */
void Session::fill(const Batch& batch, size_t row_length, float loss_scale) {
  const Fixed& fixed = plan_->fixed();
  const kernels::AdamW adamw = adamw_constants(config_, batch.step, 1, true);
  Step step;
  step.seed = static_cast<uint32_t>(config_.seed);
  step.step = batch.step;
  step.micro = batch.micro;
  step.train = batch.train;
  step.loss_scale = loss_scale;
  step.keep = static_cast<float>(1 - adamw.lr * adamw.weight_decay);
  step.rate = static_cast<float>(adamw.lr / adamw.bias_correction1);
  step.root2 = static_cast<float>(1 / std::sqrt(adamw.bias_correction2));
  std::memcpy(input<Step>(fixed.step), &step, sizeof step);

  const auto places = static_cast<size_t>(config_.max_rows());
  uint32_t *tokens = input<uint32_t>(fixed.tokens), *targets = input<uint32_t>(fixed.targets);
  std::fill(tokens, tokens + places, 0u);
  std::fill(targets, targets + places, kNoTarget);
  for (size_t b = 0; b < batch.B; ++b) {
    std::memcpy(tokens + b * row_length, batch.tokens + b * batch.T, batch.T * sizeof(uint32_t));
    std::memcpy(targets + b * row_length, batch.targets + b * batch.T, batch.T * sizeof(uint32_t));
  }
  rows_ = batch.B;
  length_ = batch.T;
}

bool Session::fill_step(size_t micro) {
  if (plan_->mode() == Mode::infer) {
    return fail("a step needs gradients, which mode infer does not hold; open it in mode train or probe");
  }
  if (corpus_.empty()) return fail("a step needs a corpus; call set_tokens first");
  if (micro >= config_.grad_accum) {
    return fail("micro-batch %zu; a step has grad_accum, %llu", micro, ull(config_.grad_accum));
  }
  if (!check_step_number(step_)) return false;
  const Batch batch = training_batch(config_, corpus_.split().train, static_cast<uint32_t>(step_),
                                     static_cast<uint32_t>(micro), batch_);
  fill(batch, batch.T, static_cast<float>(1.0 / static_cast<double>(batch.rows() * config_.grad_accum)));
  index_tokens(batch.rows());
  return true;
}

void Session::end_step() {
  ++step_;
  ++weights_version_;
}

void Session::read_stats(uint64_t step, const float* values) {
  const auto tokens = static_cast<double>(config_.max_rows() * config_.grad_accum);
  const bool losses_finite = values[stats::NOT_FINITE] == 0, finite = values[stats::FINITE] != 0;
  metrics_.loss = losses_finite ? values[stats::LOSS_SUM] / tokens : kNaN;
  metrics_.lr = learning_rate(config_, step);
  metrics_.grad_norm = finite ? values[stats::NORM] : kNaN;
  metrics_.finite = finite;
  metrics_.tokens = tokens;
}

bool Session::fill_batch(const Batch& batch) {
  if (!check_batch(config_, batch) || !check_ids(config_, "tokens", batch.tokens, batch.rows()) ||
      !check_ids(config_, "targets", batch.targets, batch.rows())) {
    return false;
  }
  fill(batch, batch.T, static_cast<float>(1.0 / static_cast<double>(batch.rows())));
  index_tokens(batch.rows());
  return true;
}

double Session::mean_loss(const float* losses) const {
  double sum = 0;
  for (size_t row = 0; row < rows_ * length_; ++row) sum += losses[row] < 0 ? kNaN : losses[row];
  return sum / static_cast<double>(rows_ * length_);
}

bool Session::evaluate_begin(std::string_view split, size_t n_batches) {
  return evaluation_.begin(config_, corpus_, split, n_batches);
}

bool Session::evaluate_fill() {
  Batch batch;
  if (!evaluation_.next(config_, batch_, &batch)) return false;
  fill(batch, static_cast<size_t>(config_.ctx), 0);
  return true;
}

bool Session::evaluate_next(const float* losses, bool* more) {
  double sum = 0;
  for (size_t b = 0; b < rows_; ++b) {
    for (size_t t = 0; t < length_; ++t) {
      const float loss = losses[b * config_.ctx + t];
      sum += loss < 0 ? kNaN : loss;  // cross_entropy's mark of a logit that is not finite
    }
  }
  *more = evaluation_.add(sum);
  if (!*more) metrics_.loss = evaluation_.mean();
  return true;
}

bool Session::generate_begin(const uint32_t* prompt, size_t count, const Sampling& sampling) {
  return generation_.begin(config_, prompt, count, sampling);
}

/**
 * The cache is made of a whole window of ctx tokens, padded: what lies behind is
 * overwritten before it is read. The window's last token is always decoded, so a
 * prefill needs no logits.
 */
bool Session::generate_fill(bool* prefill) {
  if (!generation_.ready()) return false;
  const Fixed& fixed = plan_->fixed();
  const size_t n_window = generation_.n_window();
  const uint32_t* window = generation_.window();
  *prefill = n_window > 1 && generation_.cached(weights_version_) == 0;
  Step step;
  std::memcpy(input<Step>(fixed.step), &step, sizeof step);
  step.position = static_cast<uint32_t>(n_window - 1);
  std::memcpy(input<Step>(fixed.decode_step), &step, sizeof step);
  uint32_t* tokens = input<uint32_t>(fixed.tokens);
  std::fill(tokens, tokens + config_.ctx, 0u);
  std::memcpy(tokens, window, n_window * sizeof(uint32_t));
  *input<uint32_t>(fixed.token) = window[n_window - 1];
  return true;
}

bool Session::generate_next(const float* logits, uint32_t* token) {
  return generation_.ready() && generation_.choose(config_, logits, weights_version_, token);
}

}  // namespace tabgpt::gpu
