/** The head's part of the backward pass (head.cpp), for backward.cpp. */
#pragma once

#include "tabgpt/model.hpp"

namespace tabgpt {

/** loss_sum, and dln_f.out and wte's part of the gradient of `scale` * sum, added to what is there or not. */
double head_backward(const Model& model, const Batch& batch, float scale, bool add);

}  // namespace tabgpt
