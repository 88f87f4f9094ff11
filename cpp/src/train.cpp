/** The optimizer step; loss, gradients and logits of a batch that the host brings; evaluation. */
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tabgpt/error.hpp"
#include "tabgpt/optimizer.hpp"
#include "tabgpt/session.hpp"

namespace tabgpt {

bool Session::needs_gradients(const char* what) const {
  return plan_.mode != Mode::infer ||
         fail("%s needs gradients, which mode infer does not hold; open the session in mode train or probe",
              what);
}

bool Session::set_step_number(uint64_t step) {
  if (!check_step_number(step)) return false;
  step_ = step;
  return true;
}

bool Session::step() {
  if (!needs_gradients("a step") || !set_step_number(step_)) return false;
  if (corpus_.empty()) return fail("a step needs a corpus; call set_tokens first");
  const size_t B = config_.batch_size, T = config_.ctx, n_micro = config_.grad_accum;
  const Model m = model();

  pass_over(B, T);
  double sum = 0;
  for (uint32_t micro = 0; micro < n_micro; ++micro) {
    const Batch batch =
        training_batch(config_, corpus_.split().train, static_cast<uint32_t>(step_), micro, batch_);
    forward(m, batch);
    const auto scale = static_cast<float>(1.0 / static_cast<double>(B * T * n_micro));
    sum += loss_sum_and_backward(m, batch, scale, micro > 0);
  }
  const double loss = sum / static_cast<double>(B * T * n_micro);
  const double norm = std::sqrt(
      kernels::sum_of_squares(pool_, workspace_.as<void>(), gradients_.floats(), layout_.total_floats));
  const bool finite = std::isfinite(loss) && std::isfinite(norm);
  if (finite) update(norm);
  metrics_ = {loss, learning_rate(config_, step_), norm, finite ? 1.0 : 0.0,
              static_cast<double>(B * T * n_micro)};
  ++step_;
  return true;
}

void Session::update(double norm) {
  const uint64_t decayed = layout_.decayed_floats;
  const auto apply = [&](uint64_t begin, uint64_t end, bool decay) {
    kernels::adamw(pool_, parameters_.floats() + begin, adam_m_.floats() + begin, adam_v_.floats() + begin,
                   gradients_.floats() + begin, end - begin, adamw_constants(config_, step_, norm, decay));
  };
  apply(0, decayed, true);
  apply(decayed, layout_.total_floats, false);
  ++weights_version_;
}

bool Session::loss(const Batch& batch) {
  if (!check_batch(config_, batch) || !check_ids(config_, "tokens", batch.tokens, batch.rows()) ||
      !check_ids(config_, "targets", batch.targets, batch.rows())) {
    return false;
  }
  const Model m = model();
  pass_over(batch.B, batch.T);
  forward(m, batch);
  metrics_.loss = loss_sum(m, batch) / static_cast<double>(batch.rows());
  return true;
}

bool Session::loss_and_grads(const Batch& batch) {
  if (!needs_gradients("loss_and_grads") || !check_batch(config_, batch) ||
      !check_ids(config_, "tokens", batch.tokens, batch.rows()) ||
      !check_ids(config_, "targets", batch.targets, batch.rows())) {
    return false;
  }
  const Model m = model();
  const auto rows = static_cast<double>(batch.rows());
  pass_over(batch.B, batch.T);
  forward(m, batch);
  metrics_.loss = loss_sum_and_backward(m, batch, static_cast<float>(1.0 / rows), false) / rows;
  return true;
}

bool Session::logits(const uint32_t* tokens, size_t B, size_t T, float* out) {
  if (out == nullptr)
    return fail("logits is a null pointer; pass room for [%zu, %zu, vocab_size] floats", B, T);
  if (!check_batch(config_, {.B = B > 0 ? size_t{1} : 0, .T = T})) return false;
  const size_t V = config_.vocab_size;
  if (B > SIZE_MAX / sizeof(float) / V / T) {  // B * T would wrap around, and fewer ids be checked than read
    return fail("the logits of %zu x %zu tokens over %zu ids pass %zu bytes; use fewer rows", B, T, V,
                SIZE_MAX);
  }
  if (!check_ids(config_, "tokens", tokens, B * T)) return false;
  const Model m = model();
  const size_t most = config_.max_rows() / T;
  for (size_t b = 0; b < B; b += most) {
    const Batch part{.tokens = tokens + b * T, .B = std::min(most, B - b), .T = T};
    pass_over(part.B, part.T);
    forward(m, part);
    tabgpt::logits(m, m.a(plan_.ln_f), part.rows(), out + b * T * V);
  }
  return true;
}

bool Session::evaluate_begin(std::string_view split, size_t n_batches) {
  return evaluation_.begin(config_, corpus_, split, n_batches);
}

bool Session::evaluate_next(bool* more) {
  Batch batch;
  if (!evaluation_.next(config_, batch_, &batch)) return false;
  const Model m = model();
  pass_over(batch.B, batch.T);
  forward(m, batch);
  *more = evaluation_.add(loss_sum(m, batch));
  if (!*more) metrics_.loss = evaluation_.mean();
  return true;
}

}  // namespace tabgpt
