/** Mean loss over a split, one batch a call, so that a host can stop or show progress. */
#include <algorithm>
#include <string>

#include "tabgpt/error.hpp"
#include "tabgpt/session.hpp"

namespace tabgpt {

bool Session::evaluate_begin(std::string_view split, size_t n_batches) {
  const bool validation = split == "val";
  if (!validation && split != "train") {
    return fail("the split is '%.100s'; it must be train or val", std::string(split).c_str());
  }
  if (split_.train.tokens == nullptr) return fail("an evaluation needs a corpus; call set_tokens first");
  if (n_batches > UINT32_MAX)
    return fail("%zu evaluation batches; random streams count to 4294967295", n_batches);
  const Part& part = validation ? split_.validation : split_.train;
  const bool too_short_to_draw = part.count < config_.ctx + 1;
  evaluation_ = {.active = true, .part = part, .n_batches = too_short_to_draw ? 0 : n_batches};
  return true;
}

bool Session::evaluate_next(bool* more) {
  Evaluation& e = evaluation_;
  if (!e.active) return fail("no evaluation is under way; call evaluate_begin first");
  const size_t T = config_.ctx, n_targets = e.part.count - 1;
  size_t B = config_.batch_size, length = T;
  if (e.n_batches > 0) {
    random_windows(e.part, B, T, static_cast<uint32_t>(config_.seed), static_cast<uint32_t>(e.next),
                   kUseEvaluation << 24, batch_);
  } else {
    const size_t rest = n_targets - e.next;
    length = std::min(T, rest);  // the shorter tail is a batch of its own
    B = rest < T ? 1 : std::min(B, rest / T);
    successive_windows(e.part, e.next, B, length, batch_);
  }
  const Batch batch{.tokens = batch_.tokens, .targets = batch_.targets, .B = B, .T = length};
  const Model m = model();
  pass_over(B, length);
  forward(m, batch);
  const double sum = loss_sum(m, batch);
  if (e.n_batches > 0) {
    e.sum += sum / static_cast<double>(batch.rows());
    e.next += 1;
    *more = e.next < e.n_batches;
  } else {
    e.sum += sum;
    e.next += batch.rows();
    *more = e.next < n_targets;
  }
  if (!*more) {
    metrics_.loss = e.sum / static_cast<double>(e.n_batches > 0 ? e.n_batches : n_targets);
    e.active = false;
  }
  return true;
}

}  // namespace tabgpt
