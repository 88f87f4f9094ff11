/**
 * What a plan is made of: tensors, and commands over ranges of them in order.
 *
 * A tensor is a name, a size and, once placed, a range of a buffer. A program is
 * a list of commands that a host runs from first to last; WebGPU orders them.
 */
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tabgpt::gpu {

/** How a dispatch binds a buffer; read and read_write are WGSL's access modes of storage. */
enum class Access : uint32_t { uniform, read, read_write };

/** memory()'s roles, which are the CPU's. */
enum class Role : uint32_t {
  tokens,
  parameters,
  gradients,
  adam_m,
  adam_v,
  activations,
  kv_cache,
  workspace
};

const char* role_name(Role role);

constexpr uint32_t kNone = ~uint32_t{0};

/** Elements are 4 bytes each, all of them: float32 or u32. */
struct Tensor {
  std::string name;
  Role role;
  std::vector<uint64_t> shape;
  uint64_t capacity = 0;  ///< bytes: room for the largest shape it is used with
  bool integer = false;
  bool kept = false;    ///< always lives; else from its first command to its last in each pass
  bool listed = false;  ///< a host may read it by name
  uint32_t buffer = kNone;
  uint64_t offset = 0;  ///< bytes

  uint64_t elements() const {
    uint64_t n = 1;
    for (uint64_t size : shape) n *= size;
    return n;
  }
  uint64_t bytes() const { return 4 * elements(); }
};

/** Elements [first, first + count) of a tensor. */
struct Range {
  uint32_t tensor = kNone;
  uint64_t first = 0, count = 0;
};

/** A problem size as a shader's Params hold it: by its bits. */
constexpr uint32_t word(uint32_t value) { return value; }
constexpr uint32_t word(int32_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t word(float value) { return std::bit_cast<uint32_t>(value); }

using Grid = std::array<uint32_t, 3>;

struct Command {
  enum class Kind { dispatch, clear, copy } kind;
  std::string label;            ///< of a dispatch: what it computes
  uint32_t pipeline = 0;        ///< index into Plan::pipelines
  uint32_t words = 0;           ///< of a dispatch: where its problem sizes start, bytes into the words
  std::vector<Range> ranges{};  ///< a dispatch's bindings from 1 on; clear: what; copy: from, to
  Grid grid{};
};

struct Program {
  std::string name;
  bool continues;  ///< reads what the programs before it left, back to the last that does not continue
  std::vector<Command> commands;
};

struct Buffer {
  std::string name;
  Role role;
  bool uniform;  ///< bound as uniform, too
  uint64_t bytes;
};

/** A kernel with its constants; what a host compiles once. */
struct Pipeline {
  uint32_t kernel;
  std::vector<uint32_t> constants;

  bool operator==(const Pipeline&) const = default;
};

}  // namespace tabgpt::gpu
