/** The learning rate of a step and the size of its clipped update. */
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"
#include "tabgpt/config.hpp"

namespace tabgpt {

/** Of a 0-based step: linear warm-up, then constant or a cosine to lr * min_lr_ratio at config.steps. */
double learning_rate(const Config& config, uint64_t step);

/** Errors (false): beyond what random streams count, 32 bits. */
bool check_step_number(uint64_t step);

/** min(1, grad_clip / (norm + 1e-6)), as torch's clip_grad_norm_; 1 when grad_clip is 0. */
double clip_coefficient(const Config& config, double norm);

/** AdamW's constants of a 0-based step; weight_decay is zero for what does not decay. */
kernels::AdamW adamw_constants(const Config& config, uint64_t step, double norm, bool decayed);

}  // namespace tabgpt
