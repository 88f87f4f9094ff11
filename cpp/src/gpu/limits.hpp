/** What a device allows, and whether a plan keeps to it. */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/builder.hpp"

namespace tabgpt::gpu {

/** Of the device, by WebGPU's names; their defaults are its promise. */
struct Limits {
  uint64_t max_storage_buffer_binding_size = uint64_t{128} << 20;
  uint64_t max_buffer_size = uint64_t{256} << 20;
};

/** What a device refuses; limit_name is nullptr where it refuses nothing. */
struct Violation {
  std::string what;
  uint64_t need = 0, limit = 0;
  const char* limit_name = nullptr;
};

/** The first there is, of placed tensors and their buffers. */
Violation violation(const Builder& builder, const std::vector<Buffer>& buffers, const Limits& limits);

}  // namespace tabgpt::gpu
