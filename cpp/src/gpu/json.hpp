/** A plan as the JSON text that an executor reads; tests/gpu/plans shows it in words. */
#pragma once

#include <string>
#include <vector>

#include "gpu/builder.hpp"

namespace tabgpt::gpu {

/** about: members that say what the plan is for. words: the buffer of problem sizes. */
std::string json(const std::string& about, const Builder& builder, const std::vector<Buffer>& buffers,
                 uint32_t words);
/** Of one more batch shape: tensors, words and programs alone. offset: where in the words these start. */
std::string json_of_shape(const Builder& builder, uint32_t words, uint64_t offset);

}  // namespace tabgpt::gpu
