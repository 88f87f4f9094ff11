#include "gpu/json.hpp"

#include <utility>

namespace tabgpt::gpu {
namespace {

/** Text is appended; no name that a plan holds needs escaping. */
class Writer {
 public:
  Writer(const Builder& builder, uint32_t words, uint64_t offset)
      : builder_(builder), words_(words), offset_(offset) {}

  template <typename Items, typename F>
  void list(const char* key, char open, char close, const Items& items, F write) {
    if (text.back() != '{') text += ",\n ";
    text += '"' + std::string(key) + "\":" + open;
    bool first = true;
    for (const auto& item : items) {
      const size_t before = text.size();
      text += first ? "\n  " : ",\n  ";
      const size_t start = text.size();
      write(item);
      if (text.size() == start) {
        text.resize(before);  // this one is left out
      } else {
        first = false;
      }
    }
    text += close;
  }

  void numbers(char open, const auto& values, char close) {
    text += open;
    bool first = true;
    for (const auto& value : values) {
      if (!std::exchange(first, false)) text += ',';
      text += std::to_string(value);
    }
    text += close;
  }

  void tensors() {
    list("tensors", '{', '}', builder_.tensors, [&](const Tensor& tensor) {
      if (!tensor.listed) return;
      text += '"' + tensor.name + "\":{\"buffer\":" + std::to_string(tensor.buffer) +
              ",\"offset\":" + std::to_string(tensor.offset) + ",\"shape\":";
      numbers('[', tensor.shape, ']');
      text += tensor.integer ? ",\"type\":\"u32\"}" : ",\"type\":\"f32\"}";
    });
  }

  void words() {
    text += ",\n \"words\":{\"buffer\":" + std::to_string(words_) + ",\"offset\":" + std::to_string(offset_) +
            ",\"data\":";
    numbers('[', builder_.words, ']');
    text += '}';
  }

  void range(const Range& range) {
    const Tensor& tensor = builder_.tensors[range.tensor];
    text += std::to_string(tensor.buffer) + ',' + std::to_string(tensor.offset + 4 * range.first);
  }

  void command(const Command& command) {
    const auto bytes = [&](const Range& range) { text += ',' + std::to_string(4 * range.count); };
    if (command.kind == Command::Kind::clear) {
      text += "{\"clear\":[";
      range(command.ranges[0]);
      bytes(command.ranges[0]);
      text += "]}";
      return;
    }
    if (command.kind == Command::Kind::copy) {
      text += "{\"copy\":[";
      range(command.ranges[0]);
      text += ',';
      range(command.ranges[1]);
      bytes(command.ranges[0]);
      text += "]}";
      return;
    }
    text += "{\"label\":\"" + command.label + "\",\"pipeline\":" + std::to_string(command.pipeline) +
            ",\"bindings\":[[" + std::to_string(words_) + ',' + std::to_string(offset_ + command.words) +
            ",256]";
    for (const Range& bound : command.ranges) {
      text += ",[";
      range(bound);
      bytes(bound);
      text += ']';
    }
    text += "],\"grid\":";
    numbers('[', command.grid, ']');
    text += '}';
  }

  void programs() {
    list("programs", '{', '}', builder_.programs, [&](const Program& program) {
      text += '"' + program.name + "\":[";
      bool first = true;
      for (const Command& c : program.commands) {
        text += std::exchange(first, false) ? "\n   " : ",\n   ";
        command(c);
      }
      text += ']';
    });
  }

  std::string text = "{";

 private:
  const Builder& builder_;
  const uint32_t words_;
  const uint64_t offset_;
};

}  // namespace

std::string json(const std::string& about, const Builder& builder, const std::vector<Buffer>& buffers,
                 uint32_t words) {
  Writer writer(builder, words, 0);
  std::string& text = writer.text;
  text += "\"schema\":1,\n " + about;
  writer.list("buffers", '[', ']', buffers, [&](const Buffer& buffer) {
    text += "{\"name\":\"" + buffer.name + "\",\"role\":\"" + role_name(buffer.role) +
            "\",\"bytes\":" + std::to_string(buffer.bytes) + ",\"usage\":\"" +
            (buffer.uniform ? "uniform storage" : "storage") + "\"}";
  });
  writer.tensors();
  writer.list("pipelines", '[', ']', builder.pipelines, [&](const Pipeline& pipeline) {
    const KernelInfo& kernel = info(static_cast<Kernel>(pipeline.kernel));
    constexpr const char* accesses[] = {"uniform", "read", "read_write"};
    text += "{\"kernel\":\"" + std::string(kernel.name) + "\",\"constants\":{";
    for (size_t i = 0; i < kernel.overrides.size(); ++i) {
      text += (i > 0 ? ",\"" : "\"") + std::string(kernel.overrides[i]) +
              "\":" + std::to_string(pipeline.constants[i]);
    }
    text += "},\"bindings\":[";
    for (size_t i = 0; i < kernel.accesses.size(); ++i) {
      text += (i > 0 ? ",\"" : "\"") + std::string(accesses[static_cast<uint32_t>(kernel.accesses[i])]) + '"';
    }
    text += "]}";
  });
  writer.words();
  writer.programs();
  return text + "}\n";
}

std::string json_of_shape(const Builder& builder, uint32_t words, uint64_t offset) {
  Writer writer(builder, words, offset);
  writer.tensors();
  writer.words();
  writer.programs();
  return writer.text + "}\n";
}

}  // namespace tabgpt::gpu
