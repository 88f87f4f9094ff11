#include "gpu/limits.hpp"

namespace tabgpt::gpu {

Violation violation(const Builder& builder, const std::vector<Buffer>& buffers, const Limits& limits) {
  if (!builder.over.empty()) {
    return {builder.over, kMaxGroups + 1, kMaxGroups, "maxComputeWorkgroupsPerDimension"};
  }
  for (const Program& program : builder.programs) {
    for (const Command& command : program.commands) {
      for (const Range& range : command.ranges) {
        if (4 * range.count > limits.max_storage_buffer_binding_size &&
            command.kind == Command::Kind::dispatch) {
          return {builder.tensors[range.tensor].name, 4 * range.count, limits.max_storage_buffer_binding_size,
                  "maxStorageBufferBindingSize"};
        }
      }
    }
  }
  for (const Buffer& buffer : buffers) {
    if (buffer.bytes > limits.max_buffer_size) {
      return {buffer.name, buffer.bytes, limits.max_buffer_size, "maxBufferSize"};
    }
  }
  return {};
}

}  // namespace tabgpt::gpu
