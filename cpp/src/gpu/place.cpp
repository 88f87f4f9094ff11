#include "gpu/place.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tabgpt/layout.hpp"

namespace tabgpt::gpu {
namespace {

/** Commands are numbered through all programs; a tensor lives in one stretch of each pass. */
struct Stretch {
  uint32_t first, last;
};

struct Life {
  std::vector<Stretch> stretches;
  std::set<uint32_t> apart;  ///< tensors that must not share its buffer
};

bool writes(const Command& command, size_t range) {
  switch (command.kind) {
    case Command::Kind::clear:
      return true;
    case Command::Kind::copy:
      return range == 1;
    default:
      return false;
  }
}

std::vector<Life> lives(const Builder& builder) {
  std::vector<Life> all(builder.tensors.size());
  uint32_t now = 0, pass = 0;
  for (const Program& program : builder.programs) {
    if (!program.continues) pass = now;
    for (const Command& command : program.commands) {
      const bool dispatch = command.kind == Command::Kind::dispatch;
      for (size_t i = 0; i < command.ranges.size(); ++i) {
        std::vector<Stretch>& stretches = all[command.ranges[i].tensor].stretches;
        if (stretches.empty() || stretches.back().first < pass) stretches.push_back({now, now});
        stretches.back().last = now;
        const auto written = [&](size_t j) {
          if (!dispatch) return writes(command, j);
          const auto kernel = static_cast<Kernel>(builder.pipelines[command.pipeline].kernel);
          return info(kernel).accesses[j + 1] == Access::read_write;
        };
        for (size_t j = 0; j < i; ++j) {
          if (!written(i) && !written(j)) continue;
          all[command.ranges[i].tensor].apart.insert(command.ranges[j].tensor);
          all[command.ranges[j].tensor].apart.insert(command.ranges[i].tensor);
        }
      }
      ++now;
    }
  }
  return all;
}

bool meet(const Tensor& a, const Life& la, const Tensor& b, const Life& lb) {
  if (a.kept || b.kept) return true;
  for (const Stretch& x : la.stretches) {
    for (const Stretch& y : lb.stretches) {
      if (x.first <= y.last && y.first <= x.last) return true;
    }
  }
  return false;
}

}  // namespace

void place(Builder& builder, uint64_t max_buffer_bytes, std::vector<Buffer>& buffers) {
  const std::vector<Life> all = lives(builder);
  std::vector<Tensor>& tensors = builder.tensors;
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].buffer == kNone) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return tensors[a].capacity > tensors[b].capacity; });

  std::map<uint32_t, std::vector<uint32_t>> placed;  // by buffer, then by offset
  std::map<Role, uint32_t> count;
  for (uint32_t index : order) {
    Tensor& tensor = tensors[index];
    const uint64_t bytes = align_bytes(tensor.capacity);
    uint64_t least = ~uint64_t{0}, offset = 0;
    uint32_t chosen = kNone;
    for (const auto& [buffer, others] : placed) {
      if (buffers[buffer].role != tensor.role) continue;
      const auto apart = [&](uint32_t other) { return all[index].apart.count(other) != 0; };
      if (std::any_of(others.begin(), others.end(), apart)) continue;
      uint64_t at = 0;
      for (uint32_t other : others) {
        const Tensor& there = tensors[other];
        if (!meet(tensor, all[index], there, all[other])) continue;
        if (at + bytes <= there.offset) break;
        at = std::max(at, there.offset + align_bytes(there.capacity));
      }
      const uint64_t size = buffers[buffer].bytes, growth = std::max(size, at + bytes) - size;
      if (at + bytes > max_buffer_bytes || growth >= least) continue;
      least = growth;
      chosen = buffer;
      offset = at;
    }
    if (chosen == kNone || bytes < least) {
      chosen = static_cast<uint32_t>(buffers.size());
      offset = 0;
      const std::string number = std::to_string(count[tensor.role]++);
      buffers.push_back({role_name(tensor.role) + ("." + number), tensor.role, false, 0});
    }
    tensor.buffer = chosen;
    tensor.offset = offset;
    buffers[chosen].bytes = std::max(buffers[chosen].bytes, offset + bytes);
    std::vector<uint32_t>& others = placed[chosen];
    others.insert(std::upper_bound(others.begin(), others.end(), offset,
                                   [&](uint64_t value, uint32_t i) { return value < tensors[i].offset; }),
                  index);
  }
}

}  // namespace tabgpt::gpu
