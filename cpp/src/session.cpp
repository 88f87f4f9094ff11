/** Opening a session, its corpus, its named tensors, its first weights. */
#include "tabgpt/session.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "tabgpt/error.hpp"

namespace tabgpt {

using ull = unsigned long long;

Session::Session(const Config& config, Mode mode, size_t n_threads)
    : config_(config),
      layout_(config),
      plan_(config, mode),
      pool_(n_threads),
      seen_B_(static_cast<size_t>(config.batch_size)),
      seen_T_(static_cast<size_t>(config.ctx)) {}

std::unique_ptr<Session> Session::open(const Config& config, Mode mode, size_t n_threads) {
  if (n_threads < 1 || n_threads > Pool::max_threads) {
    fail("threads is %zu; it must be from 1 to %zu", n_threads, size_t{Pool::max_threads});
    return nullptr;
  }
  const Memory memory = plan_memory(config, Layout(config), Plan(config, mode), n_threads, 0);
  if (memory.total() > SIZE_MAX) {
    fail(
        "the session needs %llu bytes, and this %zu-bit build addresses %llu; use a smaller model or "
        "batch_size, or a "
        "64-bit build",
        ull(memory.total()), 8 * sizeof(void*), ull(SIZE_MAX));
    return nullptr;
  }
  // Linux grants more than it has, and kills who touches it.
  if (physical_memory() != 0 && memory.total() > physical_memory()) {
    fail("the session needs %llu bytes, and this machine has %llu; use a smaller model or batch_size",
         ull(memory.total()), ull(physical_memory()));
    return nullptr;
  }
  std::unique_ptr<Session> session(new (std::nothrow) Session(config, mode, n_threads));
  if (session == nullptr) {
    fail("no memory for a session's %zu bytes of bookkeeping; close another session first", sizeof(Session));
    return nullptr;
  }
  if (!session->allocate(memory)) return nullptr;
  session->name_tensors();
  return session;
}

bool Session::allocate(const Memory& memory) {
  Carver batch;
  BatchBuffers::carve(config_, batch);
  if (!parameters_.allocate("parameters", memory.parameters) ||
      !gradients_.allocate("gradients", memory.gradients) || !adam_m_.allocate("adam_m", memory.adam_m) ||
      !adam_v_.allocate("adam_v", memory.adam_v) ||
      !activations_.allocate("activations", plan_.total_floats, plan_.piece_floats) ||
      !kv_cache_.allocate("kv_cache", memory.kv_cache) ||
      !workspace_.allocate("workspace", memory.workspace) ||
      !batch_arena_.allocate("tokens", batch.bytes())) {
    return false;
  }
  Carver batch_carver(batch_arena_.as<void>()), generation_carver(kv_cache_.as<void>());
  batch_ = BatchBuffers::carve(config_, batch_carver);
  generation_buffers_ = GenerationBuffers::carve(config_, generation_carver);
  generation_.carve(config_, generation_carver);
  return true;
}

void Session::name_tensors() {
  const struct {
    const char* prefix;
    const Arena& arena;
  } roles[] = {{"", parameters_}, {"grad:", gradients_}, {"m:", adam_m_}, {"v:", adam_v_}};
  for (const auto& role : roles) {
    if (role.arena.floats() == nullptr) continue;
    for (const Parameter& parameter : layout_.parameters) {
      tensors_.push_back(
          {role.prefix + parameter.name, role.arena.floats() + parameter.offset, kNoSlot, parameter.shape});
    }
  }
  if (plan_.mode == Mode::probe) {
    for (uint32_t slot = 0; slot < plan_.slots.size(); ++slot) {
      if (plan_.slots[slot].name.empty()) continue;
      tensors_.push_back({plan_.slots[slot].name, activations_.at(plan_.slots[slot].offset), slot, {}});
    }
  }
  by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const NamedTensor* Session::find(const char* name) const {
  if (name == nullptr)
    return fail("the tensor's name is a null pointer; pass one of the session's names"), nullptr;
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return &tensors_[found->second];
  const char* modes[] = {"infer", "train", "probe"};
  fail(
      "no tensor '%.200s' in mode %s: infer holds parameters, train adds grad:, m: and v:, probe adds "
      "activations "
      "and their grad:",
      name, modes[static_cast<int>(plan_.mode)]);
  return nullptr;
}

size_t Session::shape(const NamedTensor& tensor, uint64_t dims[3]) const {
  if (tensor.slot == kNoSlot) {
    dims[0] = tensor.shape[0];
    dims[1] = tensor.shape[1];
    return tensor.shape[1] == 0 ? 1 : 2;
  }
  const Slot& slot = plan_.slots[tensor.slot];
  dims[0] = seen_B_;
  dims[1] = slot.axes == Axes::BHT ? slot.width : seen_T_;
  dims[2] = slot.axes == Axes::BHT ? seen_T_ : slot.width;
  return slot.axes == Axes::BT ? 2 : 3;
}

Model Session::model() {
  return {
      config_,     layout_, plan_, pool_, workspace_.as<void>(), parameters_.floats(), gradients_.floats(),
      activations_};
}

void Session::init_weights() {
  for (uint32_t number = 0; number < layout_.parameters.size(); ++number) {
    const Parameter& parameter = layout_.parameters[number];
    // In parts for the pool.
    constexpr uint64_t part = uint64_t{1} << 16;
    pool_.parallel_for(static_cast<size_t>((parameter.count() + part - 1) / part), [&](size_t task, size_t) {
      const uint64_t first = task * part;
      layout_.initial_values(number, static_cast<uint32_t>(config_.seed), first,
                             std::min(part, parameter.count() - first),
                             parameters_.floats() + parameter.offset + first);
    });
  }
  for (const Arena* arena : {&gradients_, &adam_m_, &adam_v_}) {
    if (arena->floats() != nullptr) std::memset(arena->floats(), 0, layout_.total_floats * sizeof(float));
  }
  step_ = 0;
  ++weights_version_;
}

bool Session::set_tokens(const uint32_t* tokens, size_t count) {
  const bool done = corpus_.set(config_, tokens, count);
  if (done || corpus_.empty()) evaluation_.cancel();  // its windows are of the old corpus
  return done;
}

}  // namespace tabgpt
