/**
 * Random calls to the C ABI: configs, corpora, batches, sampling options, in any order.
 *
 * The bytes of an input decide everything, so it is a libFuzzer target as it is
 * (clang++ -fsanitize=fuzzer,address,undefined -DTABGPT_LIBFUZZER). Without libFuzzer main() makes the bytes:
 *
 *     fuzz_c_api COUNT [SEED [FIRST]]     a COUNT of 1 tells each call
 *
 * Sanitizers find the crashes. What is checked here: a refusal leaves a sentence, what must be refused is,
 * what is accepted gives values in range and writes all of its output.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tabgpt/c_api.h"

namespace {

unsigned long long seed = 1, number = 0;  ///< of the input, where main() makes it
bool tell = false;                        ///< print each call

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

#define REQUIRE(condition, ...)                                        \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::fprintf(stderr, "fuzz_c_api: %s is not so. ", #condition);  \
      std::fprintf(stderr, __VA_ARGS__);                               \
      std::fprintf(stderr, "; last error: %s\n", tabgpt_last_error()); \
      say_number();                                                    \
      std::abort();                                                    \
    }                                                                  \
  } while (false)

void say_number() { std::fprintf(stderr, "fuzz_c_api: seed %llu, number %llu\n", seed, number); }

/** The input's bytes as choices; zeros when they are used up. */
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t byte() { return empty() ? 0 : data_[at_++]; }
  uint32_t below(uint32_t n) { return (byte() | static_cast<uint32_t>(byte()) << 8) % n; }
  uint32_t word() { return below(65536) | below(65536) << 16; }
  bool one_in(uint32_t n) { return !empty() && below(n) == 0; }
  template <class T, size_t N>
  T of(const T (&list)[N]) {
    return list[below(N)];
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

struct Tally {
  unsigned long long taken = 0, refused = 0;
};
std::map<std::string, Tally> tallies;  ///< by call, to see that an input gets anywhere

/** A refusal says why. */
bool accepted(int status, const char* call) {
  REQUIRE(status == TABGPT_OK || status == TABGPT_ERROR, "%s gave %d", call, status);
  if (status == TABGPT_ERROR) REQUIRE(std::strlen(tabgpt_last_error()) > 10, "%s gave no reason", call);
  if (tell) std::printf("%s: %s\n", call, status == TABGPT_OK ? "taken" : tabgpt_last_error());
  Tally& tally = tallies[call];
  ++(status == TABGPT_OK ? tally.taken : tally.refused);
  return status == TABGPT_OK;
}

struct Fields {
  uint32_t vocab, ctx, batch, accum;
  bool wild;  ///< training may diverge
};

double odd_number(Choices& in) {
  const double odd[] = {kNaN,  kInf,  -kInf,  -1,     -0.0,   0,      0.5,    1,    2,   1e-320, 1e300,
                        65536, 65537, 0x1p31, 0x1p32, 0x1p53, 0x1p63, 0x1p64, 1023, 1e9, 262144};
  return in.of(odd);
}

/** Small and mostly sound. */
tabgpt_config* make_config(Choices& in, Fields* fields) {
  tabgpt_config* config = tabgpt_config_new();
  const uint32_t heads = 1 + in.below(3), d_model = heads * (1 + in.below(9));
  *fields = {1 + in.below(40), 1 + in.below(12), 1 + in.below(4), 1 + in.below(2), in.one_in(4)};
  // A tiny eps with beta2 0 divides a moment by almost nothing, in the oracle too.
  const bool tiny_eps = in.one_in(4);
  fields->wild = fields->wild || tiny_eps;
  const struct {
    const char* key;
    double value;
  } sound[] = {{"vocab_size", double(fields->vocab)},
               {"ctx", double(fields->ctx)},
               {"n_layer", 1.0 + in.below(2)},
               {"n_head", double(heads)},
               {"d_model", double(d_model)},
               {"d_mlp", in.one_in(2) ? 0.0 : 1.0 + in.below(40)},
               {"dropout", in.one_in(2) ? 0.0 : in.below(1000) / 1000.0},
               {"batch_size", double(fields->batch)},
               {"grad_accum", double(fields->accum)},
               {"steps", 1.0 + in.below(20)},
               {"lr", fields->wild ? 10.0 : 1e-3},
               {"min_lr_ratio", in.below(11) / 10.0},
               {"warmup_steps", double(in.below(3))},
               {"beta1", in.one_in(4) ? 0.0 : 0.9},
               {"beta2", in.one_in(4) ? 0.0 : 0.99},
               {"eps", tiny_eps ? 1e-30 : 1e-8},
               {"weight_decay", in.one_in(4) ? 10.0 : 0.1},
               {"grad_clip", in.one_in(2) ? 0.0 : 1.0},
               {"seed", double(in.word())}};
  const bool whole = !in.one_in(20);
  for (const auto& [key, value] : sound) {
    if (whole || !in.one_in(10)) {
      if (tell) std::printf("%s %g\n", key, value);
      accepted(tabgpt_config_set(config, key, value), "config_set");
    }
  }
  const char* activations[] = {"gelu_tanh", "gelu_erf"};
  const char* schedules[] = {"cosine", "constant"};
  tabgpt_config_set_choice(config, "activation", in.of(activations));
  tabgpt_config_set_choice(config, "schedule", in.of(schedules));
  for (uint32_t odd = in.one_in(3) ? 1 + in.below(3) : 0; odd > 0; --odd) {
    const char* key = in.one_in(10) ? "" : tabgpt_config_field_name(in.below(24));
    if (in.one_in(12)) key = nullptr;
    const double value = odd_number(in);
    if (in.one_in(5)) {
      const char* texts[] = {"gelu", "", "cosine", nullptr, "1", "\xff\xfe"};
      accepted(tabgpt_config_set_choice(config, key, in.of(texts)), "config_set_choice");
    } else if (accepted(tabgpt_config_set(config, key, value), "config_set")) {
      REQUIRE(std::isfinite(value) && value >= 0, "%s took %g", key, value);
      const std::string name = key;
      if (name == "lr" || name == "eps" || name == "weight_decay") fields->wild = true;
      if (name == "vocab_size") fields->vocab = static_cast<uint32_t>(value);
      if (name == "ctx") fields->ctx = static_cast<uint32_t>(value);
      if (name == "batch_size") fields->batch = static_cast<uint32_t>(value);
      if (name == "grad_accum") fields->accum = static_cast<uint32_t>(value);
    }
  }
  return config;
}

/** The calls on one session. */
class Host {
 public:
  Host(Choices& in, tabgpt_session* session, const Fields& fields, const std::string& mode)
      : in_(in), s_(session), f_(fields), mode_(mode) {}

  void call() {
    switch (in_.below(14)) {
      case 0:
        return set_tokens();
      case 1:
        return step();
      case 2:
        return loss();
      case 3:
        return logits();
      case 4:
        return evaluate_begin();
      case 5:
        return evaluate_next();
      case 6:
        return generate_begin();
      case 7:
        return generate_next();
      case 8:
        return tensor();
      case 9:
        return step_number();
      case 10:
        return poison();
      case 11:
        return ask();
      case 12:
        poisoned_ = false;
        accepted(tabgpt_init_weights(s_), "init_weights");
        return;
      default:
        return generate_next();
    }
  }

  void set_tokens() {
    bool sound = true;
    const std::vector<uint32_t> made = ids(in_.one_in(3) ? in_.below(200) : 40 + in_.below(400), &sound);
    const bool null = in_.one_in(20);
    const bool ok = accepted(tabgpt_set_tokens(s_, null ? nullptr : made.data(), made.size()), "set_tokens");
    REQUIRE(!ok || (sound && !null), "a corpus of %zu was taken", made.size());
    if (ok) corpus_ = true;
  }

 private:
  /** Ids of which some may be out of range; *sound says whether none is. */
  std::vector<uint32_t> ids(size_t n, bool* sound) {
    std::vector<uint32_t> made(n);
    const uint32_t start = in_.below(f_.vocab), stride = in_.byte();  // a byte an id would be all the input
    for (size_t i = 0; i < n; ++i) made[i] = static_cast<uint32_t>((start + i * i * stride) % f_.vocab);
    if (n > 0 && in_.one_in(6)) {
      const uint32_t bad[] = {f_.vocab, UINT32_MAX, 0x80000000u};
      made[in_.below(static_cast<uint32_t>(n))] = in_.of(bad);
    }
    *sound = std::all_of(made.begin(), made.end(), [&](uint32_t id) { return id < f_.vocab; });
    return made;
  }

  void step() {
    const size_t before = tabgpt_step_number(s_);
    if (!accepted(tabgpt_step(s_), "step")) {
      REQUIRE(tabgpt_step_number(s_) == before, "a refused step counts");
      return;
    }
    REQUIRE(mode_ != "infer" && corpus_, "a step without gradients or corpus");
    REQUIRE(tabgpt_step_number(s_) == before + 1, "a step does not count");
    const bool finite =
        std::isfinite(tabgpt_metric(s_, "loss")) && std::isfinite(tabgpt_metric(s_, "grad_norm"));
    REQUIRE((tabgpt_metric(s_, "finite") == 1) == finite, "finite is wrong");
    if (!finite || f_.wild) poisoned_ = evaluation_poisoned_ = true;
  }

  void loss() {
    const size_t batch = in_.one_in(8) ? in_.below(9) : 1 + in_.below(f_.batch);
    const size_t length = in_.one_in(8) ? in_.below(20) : 1 + in_.below(f_.ctx);
    const size_t huge = size_t{1} << in_.below(64);
    const bool overflow = in_.one_in(30), null = in_.one_in(30), gradients = in_.one_in(2);
    bool sound_x = true, sound_y = true;
    const std::vector<uint32_t> x = ids(batch * length, &sound_x), y = ids(batch * length, &sound_y);
    const size_t micro = in_.one_in(10) ? 256 : in_.below(256);
    const auto f = gradients ? tabgpt_loss_and_grads : tabgpt_loss;
    const size_t rows = overflow ? std::max<size_t>(huge, f_.batch * f_.ctx + 1) : batch;
    const bool ok = accepted(
        f(s_, null ? nullptr : x.data(), y.data(), rows, length, in_.one_in(2), in_.word(), micro), "loss");
    if (!ok) return;
    REQUIRE(!overflow && !null && sound_x && sound_y && batch > 0 && length > 0 && length <= f_.ctx &&
                batch * length <= f_.batch * f_.ctx && micro < 256,
            "a batch of %zu x %zu was taken", rows, length);
    REQUIRE(!gradients || mode_ != "infer", "gradients in infer");
    REQUIRE(poisoned_ || tabgpt_metric(s_, "loss") >= 0, "the loss is %g", tabgpt_metric(s_, "loss"));
  }

  void logits() {
    const size_t batch = in_.below(6), length = in_.one_in(8) ? in_.below(20) : 1 + in_.below(f_.ctx);
    bool sound = true;
    const std::vector<uint32_t> x = ids(batch * length, &sound);
    const float unwritten = -1.2345e33f;
    std::vector<float> out(batch * length * f_.vocab, unwritten);
    const bool null = in_.one_in(20);
    if (!accepted(tabgpt_logits(s_, x.data(), batch, length, null ? nullptr : out.data()), "logits")) return;
    REQUIRE(sound && !null && length <= f_.ctx && length > 0, "logits of %zu x %zu", batch, length);
    REQUIRE(std::find(out.begin(), out.end(), unwritten) == out.end(), "a logit is not written");
  }

  void evaluate_begin() {
    const char* splits[] = {"train", "val", "train", "val", "train", "val", "test", "", nullptr};
    const size_t batches[] = {0, 0, 1, 2, 3, 3, size_t{1} << 32, SIZE_MAX};
    if (accepted(tabgpt_evaluate_begin(s_, in_.of(splits), in_.of(batches)), "evaluate_begin")) {
      REQUIRE(corpus_, "an evaluation without a corpus");
      evaluation_poisoned_ = poisoned_;
    }
  }

  void evaluate_next() {
    for (uint32_t n = 1 + in_.below(9); n > 0; --n) {
      const int more = tabgpt_evaluate_next(s_);
      REQUIRE(more != 1 || corpus_, "an evaluation without a corpus");
      if (more == 1) continue;
      if (accepted(more, "evaluate_next")) {
        REQUIRE(evaluation_poisoned_ || tabgpt_metric(s_, "loss") >= 0, "the loss is %g",
                tabgpt_metric(s_, "loss"));
      }
      return;
    }
  }

  void generate_begin() {
    bool sound = true;
    const std::vector<uint32_t> prompt = ids(in_.below(30), &sound);
    const double temperatures[] = {0, 1, 0.8, 100, 5e-324, 1e-300, 101, -1, kNaN, kInf};
    const double top_ps[] = {1, 0.9, 5e-324, 1e-17, 0, 1.0000001, -1, kNaN, kInf};
    const size_t top_ks[] = {0, 1, 2, 40, SIZE_MAX, size_t{1} << 32};
    const double temperature = in_.one_in(6) ? in_.of(temperatures) : temperatures[in_.below(6)];
    const double top_p = in_.one_in(6) ? in_.of(top_ps) : top_ps[in_.below(4)];
    const bool null = in_.one_in(20);
    const bool ok = accepted(tabgpt_generate_begin(s_, null ? nullptr : prompt.data(), prompt.size(),
                                                   temperature, in_.of(top_ks), top_p, in_.word()),
                             "generate_begin");
    REQUIRE(!ok || (sound && !null && !prompt.empty() && temperature >= 0 && temperature <= 100 &&
                    top_p > 0 && top_p <= 1),
            "temperature %g, top_p %g, a prompt of %zu", temperature, top_p, prompt.size());
  }

  void generate_next() {
    for (uint32_t n = 1 + in_.below(2 * f_.ctx); n > 0; --n) {
      const int32_t id = tabgpt_generate_next(s_);
      accepted(id < 0 ? id : TABGPT_OK, "generate_next");
      if (id < 0) return;
      REQUIRE(static_cast<uint32_t>(id) < f_.vocab, "token %d of %u", id, f_.vocab);
    }
  }

  /** Reads all of a tensor: ASan sees where its sizes are wrong. */
  void tensor() {
    const size_t count = tabgpt_tensor_count(s_);
    const char* name = tabgpt_tensor_name(s_, in_.below(static_cast<uint32_t>(count) + 2));
    if (name == nullptr) name = in_.one_in(2) ? nullptr : "transformer.wte";
    const float* data = tabgpt_tensor_data(s_, name);
    const size_t ndim = tabgpt_tensor_ndim(s_, name);
    REQUIRE((data == nullptr) == (ndim == 0), "%s has %zu axes", name, ndim);
    if (data == nullptr) return;
    size_t n = 1;
    for (size_t axis = 0; axis < ndim; ++axis) n *= tabgpt_tensor_dim(s_, name, axis);
    REQUIRE(tabgpt_tensor_dim(s_, name, ndim) == 0, "%s", name);
    volatile float sum = 0;
    for (size_t i = 0; i < n; ++i) sum = sum + data[i];
  }

  void step_number() {
    const size_t steps[] = {0, 1, 5, UINT32_MAX, size_t{UINT32_MAX} + 1, SIZE_MAX};
    const size_t wanted = in_.of(steps);
    const bool ok = accepted(tabgpt_set_step_number(s_, wanted), "set_step_number");
    REQUIRE(!ok || tabgpt_step_number(s_) == wanted, "step %zu", wanted);
  }

  void poison() {
    if (!in_.one_in(4)) return;
    const float values[] = {NAN, INFINITY, 3e38f, 1e20f, 1e-40f, 0.0f};
    float* data =
        tabgpt_tensor_data(s_, tabgpt_tensor_name(s_, in_.below(uint32_t(tabgpt_tensor_count(s_)))));
    data[0] = in_.of(values);
    if (tell) std::printf("poison: %g\n", static_cast<double>(data[0]));
    poisoned_ = evaluation_poisoned_ = true;
  }

  void ask() {
    const char* names[] = {"loss", "lr", "grad_norm", "finite", "tokens", "", "time", nullptr};
    tabgpt_metric(s_, in_.of(names));
    const size_t threads = tabgpt_threads(s_);
    REQUIRE(threads >= 1, "no threads");
    REQUIRE(std::isnan(tabgpt_thread_tiles(s_, threads)), "tiles of a thread too many");
    REQUIRE(tabgpt_thread_tiles(s_, threads - 1) >= 0, "tiles");
  }

  Choices& in_;
  tabgpt_session* s_;
  const Fields f_;
  const std::string mode_;
  bool corpus_ = false;
  bool poisoned_ = false;             ///< the weights may be anything
  bool evaluation_poisoned_ = false;  ///< they were since it began
};

void null_handles(Choices& in) {
  const uint32_t id = 0;
  float out = 0;
  REQUIRE(tabgpt_config_set(nullptr, "ctx", 1) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_config_check(nullptr) == TABGPT_ERROR, "null");
  REQUIRE(std::isnan(tabgpt_config_parameters(nullptr)), "null");
  REQUIRE(std::isnan(tabgpt_memory(nullptr, "train", 1, 1, "total")), "null");
  REQUIRE(tabgpt_open(nullptr, "train", 1) == nullptr, "null");
  REQUIRE(tabgpt_step(nullptr) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_set_tokens(nullptr, &id, 1) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_logits(nullptr, &id, 1, 1, &out) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_generate_next(nullptr) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_evaluate_next(nullptr) == TABGPT_ERROR, "null");
  REQUIRE(tabgpt_tensor_data(nullptr, "x") == nullptr, "null");
  tabgpt_close(nullptr);
  tabgpt_config_free(nullptr);
  tabgpt_free(nullptr);
  const char* ops[] = {nullptr, "", "gemm", "layernorm", "no such op"};
  const double params[] = {odd_number(in)};
  REQUIRE(tabgpt_op(in.of(ops), params, in.below(2), nullptr, 0, in.below(3)) == TABGPT_ERROR,
          "an op of nothing");
}

void one_input(Choices in) {
  if (in.one_in(50)) null_handles(in);
  Fields fields;
  tabgpt_config* config = make_config(in, &fields);
  const char* modes[] = {"infer", "train", "train", "probe", "probe", "run", nullptr};
  const char* roles[] = {"parameters", "gradients", "activations", "kv_cache", "workspace",
                         "tokens",     "",          nullptr};
  const char* mode = in.one_in(20) ? in.of(modes) : modes[in.below(5)];
  const size_t many[] = {0, 1000, SIZE_MAX};
  const size_t threads = in.one_in(20) ? in.of(many) : 1 + in.below(3);
  const bool sound = accepted(tabgpt_config_check(config), "config_check");
  const double total = tabgpt_memory(config, mode, threads, 0, "total");
  const double part = tabgpt_memory(config, mode, threads, in.word(), in.of(roles));
  REQUIRE(sound || std::isnan(total), "memory of a config that is refused");
  REQUIRE(std::isnan(part) || part >= 0, "%g bytes", part);
  const double lr = tabgpt_learning_rate(config, in.one_in(2) ? in.below(30) : SIZE_MAX);
  REQUIRE(!sound || (lr >= 0 && lr <= 10), "the learning rate is %g", lr);
  const double parameters = tabgpt_config_parameters(config);
  REQUIRE(sound == (parameters > 0), "%g parameters", parameters);
  const double work = parameters * fields.ctx * fields.batch * fields.accum;
  if (!sound || std::isnan(total) || total > 0x1p40 || (total < 0x1p23 && work < 2e7)) {
    tabgpt_session* session = tabgpt_open(config, mode, threads);
    if (session == nullptr) {
      REQUIRE(std::strlen(tabgpt_last_error()) > 10, "no reason");
    } else {
      REQUIRE(sound && total < 0x1p40, "a session that cannot be");
      if (!in.one_in(8)) tabgpt_init_weights(session);
      Host host(in, session, fields, mode);
      if (!in.one_in(8)) host.set_tokens();
      while (!in.empty()) host.call();
      tabgpt_close(session);
    }
  }
  tabgpt_config_free(config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  one_input(Choices(data, size));
  return 0;
}

#ifndef TABGPT_LIBFUZZER
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)());

int main(int argc, char** argv) {
  const auto argument = [&](int i, unsigned long long otherwise) {
    return i < argc ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const unsigned long long count = argument(1, 2000), first = argument(3, 0);
  seed = argument(2, 1);
  tell = count == 1;
  if (tell) std::setbuf(stdout, nullptr);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_number);
  for (number = first; number < first + count; ++number) {
    std::seed_seq both{static_cast<uint32_t>(seed), static_cast<uint32_t>(number)};
    std::mt19937 rng(both);
    std::vector<uint8_t> data(200 + rng() % 800);
    std::generate(data.begin(), data.end(), [&] { return static_cast<uint8_t>(rng()); });
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  for (const auto& [call, tally] : tallies) {
    std::printf("%-16s %9llu taken %9llu refused\n", call.c_str(), tally.taken, tally.refused);
  }
  std::printf("%llu inputs from %llu, seed %llu: no findings\n", count, first, seed);
}
#endif
