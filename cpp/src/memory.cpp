#include "tabgpt/memory.hpp"

#include <cstring>

#include "tabgpt/error.hpp"
#include "tabgpt/session.hpp"

namespace tabgpt {
namespace {

struct Role {
  const char* name;
  uint64_t Memory::* bytes;
};

constexpr Role kRoles[] = {
    {"parameters", &Memory::parameters},   {"gradients", &Memory::gradients},
    {"adam_m", &Memory::adam_m},           {"adam_v", &Memory::adam_v},
    {"activations", &Memory::activations}, {"kv_cache", &Memory::kv_cache},
    {"workspace", &Memory::workspace},     {"tokens", &Memory::tokens},
};

}  // namespace

uint64_t Memory::total() const {
  uint64_t sum = 0;
  for (const Role& role : kRoles) sum += this->*role.bytes;
  return sum;
}

bool Memory::of_role(const char* role, uint64_t* bytes) const {
  for (const Role& known : kRoles) {
    if (role != nullptr && std::strcmp(role, known.name) == 0) return *bytes = this->*known.bytes, true;
  }
  if (role != nullptr && std::strcmp(role, "total") == 0) return *bytes = total(), true;
  return fail(
      "unknown memory role '%.100s'; the roles are parameters, gradients, adam_m, adam_v, activations, "
      "kv_cache, workspace, tokens and total",
      role == nullptr ? "" : role);
}

Memory plan_memory(const Config& config, const Layout& layout, const Plan& plan, size_t n_threads,
                   uint64_t n_tokens) {
  Memory memory;
  memory.parameters = 4 * layout.total_floats;
  if (plan.mode != Mode::infer) memory.gradients = memory.adam_m = memory.adam_v = memory.parameters;
  memory.activations = 4 * plan.total_floats;
  Carver generation, batch;
  GenerationBuffers::carve(config, generation);
  Generation().carve(config, generation);
  BatchBuffers::carve(config, batch);
  memory.kv_cache = generation.bytes();
  memory.workspace = align_bytes(workspace_bytes(config, plan, n_threads));
  memory.tokens = align_bytes(4 * n_tokens) + batch.bytes();
  return memory;
}

}  // namespace tabgpt
