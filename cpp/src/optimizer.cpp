#include "tabgpt/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "tabgpt/error.hpp"

namespace tabgpt {

double learning_rate(const Config& config, uint64_t step) {
  if (step < config.warmup_steps) {
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps + 1);
  }
  if (config.schedule == Schedule::constant) return config.lr;
  const double after = static_cast<double>(step - config.warmup_steps);
  const double span =
      std::max(1.0, static_cast<double>(config.steps) - static_cast<double>(config.warmup_steps));
  const double share = std::min(1.0, after / span), pi = 3.14159265358979323846;
  const double min_lr = config.lr * config.min_lr_ratio;
  return min_lr + 0.5 * (1.0 + std::cos(pi * share)) * (config.lr - min_lr);
}

bool check_step_number(uint64_t step) {
  if (step <= UINT32_MAX) return true;
  return fail("the step number is %llu; random streams count steps to %lu",
              static_cast<unsigned long long>(step), static_cast<unsigned long>(UINT32_MAX));
}

double clip_coefficient(const Config& config, double norm) {
  return config.grad_clip == 0 ? 1.0 : std::min(1.0, config.grad_clip / (norm + 1e-6));
}

kernels::AdamW adamw_constants(const Config& config, uint64_t step, double norm, bool decayed) {
  const double t = static_cast<double>(step) + 1;
  kernels::AdamW a{};
  a.lr = learning_rate(config, step);
  a.beta1 = config.beta1;
  a.beta2 = config.beta2;
  a.eps = config.eps;
  a.weight_decay = decayed ? config.weight_decay : 0.0;
  a.bias_correction1 = 1.0 - std::pow(config.beta1, t);
  a.bias_correction2 = 1.0 - std::pow(config.beta2, t);
  a.grad_scale = clip_coefficient(config, norm);
  return a;
}

}  // namespace tabgpt
