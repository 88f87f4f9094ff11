#include "gpu/op.hpp"

#include <cmath>
#include <limits>

#include "gpu/json.hpp"
#include "gpu/place.hpp"
#include "tabgpt/error.hpp"

namespace tabgpt::gpu {
namespace {

using ull = unsigned long long;

constexpr uint64_t kMostSize = 16384, kMostElements = uint64_t{1} << 28;
constexpr uint64_t kMostHeadDim = 128;
constexpr double kHalf = 0x1p-10;  ///< relative error of an operand kept in 16 bits: twice one rounding

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/** Decimal digits only; kMostSize + 1 where it is none or too large. */
uint64_t whole_number(std::string_view word) {
  uint64_t value = 0;
  for (char c : word) {
    if (c < '0' || c > '9' || value > kMostSize) return kMostSize + 1;
    value = 10 * value + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool parse(std::string_view text, OpSizes* sizes) {
  const std::vector<std::string_view> words = words_of(text);
  const std::string copy(text.substr(0, 100));
  const bool matmul = !words.empty() && words[0] == "matmul";
  bool known = false;
  if (matmul && words.size() == 5) {
    constexpr std::string_view operands[] = {"NN", "NT", "TN"};
    for (uint32_t i = 0; i < 3; ++i) {
      if (words[1] == operands[i]) sizes->trans = i, known = true;
    }
  } else if (words.size() == 6 && words[0] == "attention") {
    known = words[1] == "forward" || words[1] == "backward";
    sizes->kind =
        words[1] == "forward" ? OpSizes::Kind::attention_forward : OpSizes::Kind::attention_backward;
  }
  if (!known) {
    return fail(
        "'%s' is no operation; there are 'matmul NN M K N' (or NT, TN) and 'attention forward B H T D' (or "
        "backward)",
        copy.c_str());
  }
  uint64_t* const matmul_sizes[] = {&sizes->M, &sizes->K, &sizes->N};
  uint64_t* const attention_sizes[] = {&sizes->B, &sizes->H, &sizes->T, &sizes->D};
  for (size_t i = 2; i < words.size(); ++i) {
    const uint64_t value = whole_number(words[i]);
    const uint64_t most = !matmul && i == 5 ? kMostHeadDim : kMostSize;
    if (value < 1 || value > most) {
      return fail("'%s': sizes are from 1 to %llu, and a head's dimension to %llu", copy.c_str(),
                  ull(kMostSize), ull(kMostHeadDim));
    }
    *(matmul ? matmul_sizes[i - 2] : attention_sizes[i - 2]) = value;
  }
  for (const auto& tensors : {op_inputs(*sizes), op_results(*sizes)}) {
    for (const OpTensor& tensor : tensors) {
      if (tensor.count > kMostElements) {
        return fail("'%s': %s has %llu elements, and the most are %llu; choose smaller sizes", copy.c_str(),
                    tensor.name.c_str(), ull(tensor.count), ull(kMostElements));
      }
    }
  }
  return true;
}

/** The model of which attention is a part: one layer, no dropout. */
Config config_of(const OpSizes& sizes) {
  Config config;
  config.vocab_size = config.n_layer = config.d_mlp = config.grad_accum = 1;
  config.batch_size = sizes.B;
  config.ctx = sizes.T;
  config.n_head = sizes.H;
  config.d_model = sizes.C();
  return config;
}

std::string list(const char* key, const std::vector<OpTensor>& tensors) {
  std::string text = '"' + std::string(key) + "\":[";
  for (const OpTensor& tensor : tensors) {
    if (text.back() != '[') text += ',';
    text += '"' + tensor.name + '"';
  }
  return text + ']';
}

const OpTensor* find(const std::vector<OpTensor>& tensors, std::string_view name) {
  for (const OpTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  fail("this operation has no tensor '%.100s' of that kind", std::string(name).c_str());
  return nullptr;
}

}  // namespace

std::unique_ptr<Op> Op::open(std::string_view text) {
  OpSizes sizes;
  return parse(text, &sizes) ? std::unique_ptr<Op>(new Op(sizes)) : nullptr;
}

/** The programs, of the very commands that a training step consists of. */
void Op::emit(Model& model, Builder& builder) const {
  const OpSizes& s = sizes_;
  if (s.kind == OpSizes::Kind::matmul) {
    const auto tensor = [&](const char* name, uint64_t rows, uint64_t columns) {
      return builder.all(builder.tensor(name, Role::activations, {rows, columns}));
    };
    const bool a_turned = s.trans == Model::Product::TN, b_turned = s.trans == Model::Product::NT;
    const Range A = a_turned ? tensor("A", s.K, s.M) : tensor("A", s.M, s.K);
    const Range B = b_turned ? tensor("B", s.N, s.K) : tensor("B", s.K, s.N);
    const Range out = tensor("out", s.M, s.N);
    builder.begin("prepare");
    builder.clear(out);
    builder.begin("run");
    model.matmul("matmul", {.trans = static_cast<Model::Product::Trans>(s.trans),
                            .M = s.M,
                            .N = s.N,
                            .K = s.K,
                            .A = A,
                            .B = B,
                            .out = out});
    return;
  }
  const Range qkv = model.act("h.0.attn.qkv", {s.B, s.T, 3 * s.C()});
  const Range out = model.channels("h.0.attn.out");
  builder.begin("prepare");
  if (s.kind == OpSizes::Kind::attention_forward) {
    builder.clear(out);
    builder.clear(model.act("h.0.attn.lse", {s.B, s.H, s.T}));
    builder.begin("run");
    model.attention(0, qkv, out);
    return;
  }
  const Range dout = model.channels("grad:h.0.attn.out");
  const Range dqkv = model.act("grad:h.0.attn.qkv", {s.B, s.T, 3 * s.C()});
  builder.clear(dqkv);
  model.attention(0, qkv, out);
  builder.begin("run");
  model.attention_backward(0, dqkv, dout);
}

const char* Op::plan(const Options& options) {
  Builder builder;
  std::vector<Buffer> buffers{{"inputs", Role::tokens, true, kAlignmentBytes},
                              {"words", Role::workspace, true, 0}};
  Fixed fixed{};
  fixed.step = builder.tensor("step", Role::tokens, {kAlignmentBytes / 4});
  builder.tensors[fixed.step].integer = true;
  builder.tensors[fixed.step].buffer = 0;
  builder.add_dummies();

  const Config config = config_of(sizes_);
  const Layout layout(config);
  Model model(config, layout, Mode::probe, options.variants, 1, fixed, builder, sizes_.B, sizes_.T);
  emit(model, builder);
  for (Tensor& tensor : builder.tensors) {
    tensor.kept = true;  // "run" is repeated, and its inputs stay
    tensor.listed = tensor.buffer != 0 && tensor.role == Role::activations;
  }
  place(builder, options.limits.max_buffer_size, buffers);
  buffers[1].bytes = 4 * builder.words.size();
  const Violation found = violation(builder, buffers, options.limits);
  if (found.limit_name != nullptr) {
    fail(
        "the GPU cannot hold this operation: '%s' needs %llu, and the device's %s is %llu; choose smaller "
        "sizes",
        found.what.c_str(), ull(found.need), found.limit_name, ull(found.limit));
    return nullptr;
  }
  const auto number = [](double value) { return std::to_string(static_cast<ull>(value)); };
  json_ = json(list("inputs", op_inputs(sizes_)) + ',' + list("results", op_results(sizes_)) +
                   ",\"flops\":" + number(flops()) + ",\"bytes\":" + number(bytes()),
               builder, buffers, 1);
  return json_.c_str();
}

bool Op::input(std::string_view name, float* values) const {
  const std::vector<OpTensor> inputs = op_inputs(sizes_);
  const OpTensor* input = find(inputs, name);
  if (input == nullptr) return false;
  op_values(*input, static_cast<uint32_t>(input - inputs.data()), values);
  return true;
}

double Op::check(const Options& options, std::string_view name, const float* got) {
  const std::vector<OpTensor> results = op_results(sizes_);
  const OpTensor* result = find(results, name);
  if (result == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const Matmul matmul = options.variants.matmul;
  const bool half = matmul == Matmul::f16 || matmul == Matmul::tiled_f16 || matmul == Matmul::f16_packed;
  return answers_.worst(*result, got, half ? kHalf : 0);
}

double Op::flops() const {
  const auto d = [](uint64_t n) { return static_cast<double>(n); };
  const OpSizes& s = sizes_;
  if (s.kind == OpSizes::Kind::matmul) return 2 * d(s.M) * d(s.N) * d(s.K);
  const double pairs = d(s.B * s.H) * d(s.T) * d(s.T + 1) / 2;
  return (s.kind == OpSizes::Kind::attention_forward ? 4 : 10) * pairs * d(s.D);
}

double Op::bytes() const {
  uint64_t count = 0;
  for (const OpTensor& tensor : op_inputs(sizes_)) count += tensor.count;
  for (const OpTensor& tensor : op_results(sizes_)) count += tensor.count;
  return 4 * static_cast<double>(count);
}

double step_flops(const Config& config) {
  const auto d = [](uint64_t n) { return static_cast<double>(n); };
  const double C = d(config.d_model), T = d(config.ctx), L = d(config.n_layer);
  const double rows = d(config.batch_size) * T * d(config.grad_accum);
  const double weights = L * (4 * C * C + 2 * C * d(config.mlp())) + C * d(config.vocab_size);
  return rows * (6 * weights + L * 7 * (T + 1) * C);
}

}  // namespace tabgpt::gpu
