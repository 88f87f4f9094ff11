/** Which buffer each tensor of a plan lies in, and where. */
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/builder.hpp"

namespace tabgpt::gpu {

/**
 * Places every tensor that has no buffer yet, adding buffers of its role.
 *
 * WebGPU's rule is per buffer: a dispatch may not bind one both as read and as
 * read_write, nor write two ranges of it. So tensors that meet in a command, one
 * of them written, get different buffers: a graph colouring. Within a buffer two
 * tensors share bytes when their lives do not meet. Greedy: largest first, each
 * where the buffers grow the least.
 */
void place(Builder& builder, uint64_t max_buffer_bytes, std::vector<Buffer>& buffers);

}  // namespace tabgpt::gpu
