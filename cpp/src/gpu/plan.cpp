#include "gpu/plan.hpp"

#include <algorithm>

#include "gpu/json.hpp"
#include "gpu/place.hpp"
#include "tabgpt/error.hpp"

namespace tabgpt::gpu {
namespace {

using ull = unsigned long long;

constexpr uint32_t kInputs = 0, kWords = 1;  // indices of the first two buffers

/** Words that a shape may need beside the full batch's: a last chunk of the head that is not whole. */
constexpr uint64_t kSpareWords = 8 * kAlignmentBytes;

uint64_t Memory::* bytes_of(Role role) {
  constexpr uint64_t Memory::* roles[] = {&Memory::tokens,   &Memory::parameters, &Memory::gradients,
                                          &Memory::adam_m,   &Memory::adam_v,     &Memory::activations,
                                          &Memory::kv_cache, &Memory::workspace};
  return roles[static_cast<uint32_t>(role)];
}

}  // namespace

Plan::Plan(const Config& config, const Options& options)
    : config_(config), options_(options), layout_(config) {
  fix_inputs();
  fix_arenas();
  builder_.add_dummies();
  const uint32_t stats = builder_.tensor("stats", Role::workspace, {stats::COUNT});
  builder_.tensors[stats].listed = builder_.tensors[stats].kept = true;

  builder_.begin("prefill");
  model(builder_, 1, config.ctx).prefill();
  builder_.begin("decode");
  model(builder_, 1, 1).decode();
  const uint64_t B = config.batch_size, T = config.ctx;
  if (options.mode != Mode::infer) {
    builder_.begin("begin_step");
    model(builder_, B, T).begin_step();
    builder_.begin("update");
    model(builder_, B, T).update();
  }
  passes(builder_, B, T);
  place(builder_, options.limits.max_buffer_size, buffers_);
  words_capacity_ = 4 * builder_.words.size() + kSpareWords;
  buffers_[kWords].bytes = 2 * words_capacity_;
}

Model Plan::model(Builder& builder, uint64_t B, uint64_t T) const {
  const uint64_t rows = head_rows(config_, options_.limits.max_storage_buffer_binding_size);
  return Model(config_, layout_, options_.mode, options_.variants, rows, fixed_, builder, B, T);
}

void Plan::passes(Builder& builder, uint64_t B, uint64_t T) const {
  Model m = model(builder, B, T);
  builder.begin("forward");
  m.forward();
  builder.begin("losses", true);
  m.losses();
  for (uint64_t chunk = 0; chunk < m.chunks(); ++chunk) {
    builder.begin("logits." + std::to_string(chunk), true);
    m.logits(chunk);
  }
  if (options_.mode == Mode::infer) return;
  builder.begin("backward", true);
  m.backward();
}

/** What the core writes before a pass, in one buffer that a host uploads at once. */
void Plan::fix_inputs() {
  const uint64_t rows = config_.max_rows(), block = kAlignmentBytes / 4;
  buffers_.push_back({"inputs", Role::tokens, true, 0});
  buffers_.push_back({"words", Role::workspace, true, 0});
  const auto add = [&](const char* name, uint64_t count, bool integer = true) {
    const uint32_t index = builder_.tensor(name, Role::tokens, {count});
    Tensor& tensor = builder_.tensors[index];
    tensor.integer = integer;
    tensor.kept = tensor.listed = true;
    tensor.buffer = kInputs;
    tensor.offset = buffers_[kInputs].bytes;
    buffers_[kInputs].bytes += align_bytes(tensor.bytes());
    return index;
  };
  fixed_.step = add("step", block);
  fixed_.decode_step = add("decode_step", block);
  fixed_.token = add("token", 1);
  fixed_.tokens = add("tokens", rows);
  fixed_.targets = add("targets", rows);
  if (options_.mode == Mode::infer) return;
  fixed_.token_starts = add("token_starts", config_.vocab_size + 1);
  fixed_.token_rows = add("token_rows", rows);
}

/** Parameters, gradients and moments: one layout, cut between tensors where a buffer would pass a limit. */
void Plan::fix_arenas() {
  const uint64_t limit =
      std::min(options_.limits.max_buffer_size, options_.limits.max_storage_buffer_binding_size);
  const std::vector<Parameter>& parameters = layout_.parameters;
  std::vector<uint64_t> cuts{0};  // floats
  for (const Parameter& parameter : parameters) {
    const uint64_t end = parameter.offset + align_floats(parameter.count());
    if (4 * (end - cuts.back()) > limit && parameter.offset > cuts.back()) cuts.push_back(parameter.offset);
  }
  cuts.push_back(layout_.total_floats);

  const struct {
    Role role;
    const char *name, *prefix;
  } arenas[] = {{Role::parameters, "parameters", ""},
                {Role::gradients, "gradients", "grad:"},
                {Role::adam_m, "adam_m", "m:"},
                {Role::adam_v, "adam_v", "v:"}};
  const size_t n_arenas = options_.mode == Mode::infer ? 1 : 4;
  const auto fix = [&](std::string name, Role role, std::vector<uint64_t> shape, uint32_t buffer,
                       uint64_t floats) {
    const uint32_t index = builder_.tensor(std::move(name), role, std::move(shape));
    Tensor& tensor = builder_.tensors[index];
    tensor.kept = true;
    tensor.buffer = buffer;
    tensor.offset = 4 * floats;
    return index;
  };
  for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
    const uint64_t begin = cuts[cut], end = cuts[cut + 1];
    const uint64_t border = std::clamp(layout_.decayed_floats, begin, end);
    fixed_.pieces.push_back({kNone, kNone, kNone, kNone, begin, border - begin});
    Fixed::Piece& piece = fixed_.pieces.back();
    uint32_t* const indices[] = {&piece.parameters, &piece.gradients, &piece.m, &piece.v};
    for (size_t a = 0; a < n_arenas; ++a) {
      const auto buffer = static_cast<uint32_t>(buffers_.size());
      const std::string name = std::string(arenas[a].name) + "." + std::to_string(cut);
      buffers_.push_back({name, arenas[a].role, false, 4 * (end - begin)});
      for (uint32_t i = 0; i < parameters.size(); ++i) {
        const Parameter& parameter = parameters[i];
        if (parameter.offset < begin || parameter.offset >= end) continue;
        std::vector<uint64_t> shape{parameter.shape[0]};
        if (parameter.shape[1] != 0) shape.push_back(parameter.shape[1]);
        const uint32_t index = fix(arenas[a].prefix + parameter.name, arenas[a].role, std::move(shape),
                                   buffer, parameter.offset - begin);
        builder_.tensors[index].listed = true;
        if (a == 0) fixed_.parameters.push_back(index);
        if (a == 1) fixed_.gradients.push_back(index);
      }
      *indices[a] = fix(name, arenas[a].role, {end - begin}, buffer, 0);
    }
  }
}

Violation Plan::try_out(const Config& config, const Options& options) {
  const Plan plan(config, options);
  return violation(plan.builder_, plan.buffers_, options.limits);
}

std::unique_ptr<Plan> Plan::make(const Config& config, const Options& options) {
  std::unique_ptr<Plan> plan(new Plan(config, options));
  const Violation found = violation(plan->builder_, plan->buffers_, options.limits);
  if (found.limit_name == nullptr) {
    const std::string about = "\"batch\":[" + std::to_string(config.batch_size) + ',' +
                              std::to_string(config.ctx) +
                              "],\"micro_batches\":" + std::to_string(config.grad_accum);
    plan->json_ = gpu::json(about, plan->builder_, plan->buffers_, kWords);
    return plan;
  }
  // The largest setting that fits, of the first field that can be made small enough.
  const struct {
    const char* name;
    uint64_t Config::* field;
    uint64_t step;
  } fields[] = {{"batch_size", &Config::batch_size, 1},
                {"ctx", &Config::ctx, 1},
                {"d_model", &Config::d_model, config.n_head}};
  std::string advice = "no smaller batch_size, ctx or d_model alone fits";
  for (const auto& [name, field, step] : fields) {
    const auto fits = [&, field = field, step = step](uint64_t steps) {
      Config smaller = config;
      if (config.mlp() == 4 * config.d_model) smaller.d_mlp = 0;  // so much wider than d_model, still
      smaller.*field = steps * step;
      return try_out(smaller, options).limit_name == nullptr;
    };
    uint64_t low = 0, high = config.*field / step;  // low fits (or is 0), high does not
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    if (low == 0) continue;
    advice = std::string("the largest ") + name + " that fits is " + std::to_string(low * step);
    break;
  }
  fail("the GPU cannot hold this plan: '%s' needs %llu, and the device's %s is %llu; %s", found.what.c_str(),
       ull(found.need), found.limit_name, ull(found.limit), advice.c_str());
  return nullptr;
}

std::string Plan::json_of_shape(uint64_t B, uint64_t T) const {
  Builder builder = builder_;
  builder.start_over();
  passes(builder, B, T);
  return gpu::json_of_shape(builder, kWords, words_capacity_);
}

Memory Plan::memory() const {
  Memory memory;
  for (const Buffer& buffer : buffers_) memory.*bytes_of(buffer.role) += buffer.bytes;
  return memory;
}

}  // namespace tabgpt::gpu
