/** A plan as the JSON text that an executor reads; tests/gpu/plans shows it in words. */
#pragma once

#include <string>
#include <vector>

#include "gpu/builder.hpp"
#include "tabgpt/config.hpp"

namespace tabgpt::gpu {

/** words: the buffer of problem sizes, and where in it these programs' start. */
std::string json(const Builder& builder, const std::vector<Buffer>& buffers, uint32_t words, uint64_t offset,
                 const Config& config);
/** Of one more batch shape: tensors, words and programs alone. */
std::string json_of_shape(const Builder& builder, uint32_t words, uint64_t offset);

}  // namespace tabgpt::gpu
