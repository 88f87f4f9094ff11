#include "gpu/builder.hpp"

#include <algorithm>

#include "tabgpt/layout.hpp"

namespace tabgpt::gpu {

const char* role_name(Role role) {
  constexpr const char* names[] = {"tokens", "parameters",  "gradients", "adam_m",
                                   "adam_v", "activations", "kv_cache",  "workspace"};
  return names[static_cast<uint32_t>(role)];
}

Grid folded(uint64_t groups) {
  const uint64_t x = std::min<uint64_t>(groups, kMaxGroups);
  return {static_cast<uint32_t>(x), static_cast<uint32_t>((groups + x - 1) / x), 1};
}

uint32_t Builder::tensor(std::string name, Role role, std::vector<uint64_t> shape) {
  const auto [found, is_new] = by_name_.try_emplace(name, static_cast<uint32_t>(tensors.size()));
  if (is_new) tensors.push_back({std::move(name), role, {}});
  Tensor& tensor = tensors[found->second];
  tensor.shape = std::move(shape);
  tensor.capacity = std::max(tensor.capacity, tensor.bytes());
  return found->second;
}

uint32_t Builder::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNone : found->second;
}

void Builder::add_dummies() {
  const auto add = [&](const char* name) {
    const uint32_t index = tensor(name, Role::workspace, {kAlignmentBytes / 4});
    tensors[index].kept = true;
    return index;
  };
  dummy_read_ = add("nothing.read");
  dummy_writes_ = {add("nothing.written.0"), add("nothing.written.1")};
}

void Builder::start_over() {
  words.clear();
  placed_words_.clear();
  programs.clear();
}

void Builder::dispatch(std::string label, Kernel kernel, std::vector<uint32_t> constants,
                       const std::vector<uint32_t>& values, std::vector<Range> bindings, Grid grid) {
  const std::vector<Access>& accesses = info(kernel).accesses;
  size_t unwritten = 0;
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].tensor != kNone) continue;
    bindings[i] = all(accesses[i + 1] == Access::read ? dummy_read_ : dummy_writes_[unwritten++]);
  }
  const Pipeline wanted{static_cast<uint32_t>(kernel), std::move(constants)};
  auto found = std::find(pipelines.begin(), pipelines.end(), wanted);
  if (found == pipelines.end()) found = pipelines.insert(found, wanted);
  if (std::max({grid[0], grid[1], grid[2]}) > kMaxGroups && over.empty()) over = label;
  command({Command::Kind::dispatch, std::move(label), static_cast<uint32_t>(found - pipelines.begin()),
           place_words(values), std::move(bindings), grid});
}

uint32_t Builder::place_words(const std::vector<uint32_t>& values) {
  const auto [found, is_new] = placed_words_.try_emplace(values, static_cast<uint32_t>(4 * words.size()));
  if (is_new) {
    words.insert(words.end(), values.begin(), values.end());
    words.resize(static_cast<size_t>(align_floats(words.size())));
  }
  return found->second;
}

}  // namespace tabgpt::gpu
