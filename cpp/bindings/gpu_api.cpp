/** The C ABI over gpu::Session. */
#include <algorithm>
#include <memory>
#include <utility>

#include "abi.hpp"
#include "gpu/session.hpp"

struct tabgpt_gpu {
  std::unique_ptr<tabgpt::gpu::Session> session;
};

namespace {

using namespace tabgpt::abi;
using tabgpt::Batch;
using tabgpt::fail;
using tabgpt::gpu::Options;
using tabgpt::gpu::Purpose;
using tabgpt::gpu::Role;
using tabgpt::gpu::Session;

Session* session_of(const tabgpt_gpu* handle) {
  if (handle == nullptr) return fail("the GPU handle is null; tabgpt_gpu_open gives one"), nullptr;
  return handle->session.get();
}

/** A float array that the host brings back. */
bool given(const char* what, const float* values) {
  return values != nullptr || fail("%s is a null pointer; pass what the programs left", what);
}

}  // namespace

extern "C" {

const char* tabgpt_gpu_variants(void) {
  return guarded<const char*>(nullptr, [] { return tabgpt::gpu::variants_json().c_str(); });
}

tabgpt_gpu* tabgpt_gpu_open(const tabgpt_config* config, const char* mode, double max_binding_bytes,
                            double max_buffer_bytes, const char* variants) {
  return guarded<tabgpt_gpu*>(nullptr, [&]() -> tabgpt_gpu* {
    Options options;
    if (tabgpt_config_check(config) != TABGPT_OK || !tabgpt::parse_mode(mode, &options.mode) ||
        !parse_limit("maxStorageBufferBindingSize", max_binding_bytes,
                     &options.limits.max_storage_buffer_binding_size) ||
        !parse_limit("maxBufferSize", max_buffer_bytes, &options.limits.max_buffer_size) ||
        !tabgpt::gpu::parse_variants(variants, Purpose::training, &options.variants)) {
      return nullptr;
    }
    std::unique_ptr<Session> session = Session::open(config->config, options);
    return session == nullptr ? nullptr : new tabgpt_gpu{std::move(session)};
  });
}

void tabgpt_gpu_close(tabgpt_gpu* gpu) { delete gpu; }

const char* tabgpt_gpu_plan(const tabgpt_gpu* gpu) {
  const Session* s = session_of(gpu);
  return s == nullptr ? nullptr : s->plan().json().c_str();
}

const char* tabgpt_gpu_programs(tabgpt_gpu* gpu, size_t batch, size_t length) {
  Session* s = session_of(gpu);
  return s == nullptr ? nullptr : guarded<const char*>(nullptr, [&] { return s->programs(batch, length); });
}

double tabgpt_gpu_memory(const tabgpt_gpu* gpu, const char* role) {
  const Session* s = session_of(gpu);
  if (s == nullptr) return kNaN;
  const tabgpt::Memory memory = s->plan().memory();
  uint64_t bytes;
  return memory.of_role(role, &bytes) ? static_cast<double>(bytes) : kNaN;
}

const void* tabgpt_gpu_inputs(const tabgpt_gpu* gpu) {
  const Session* s = session_of(gpu);
  return s == nullptr ? nullptr : s->inputs();
}

int tabgpt_gpu_initial_values(const tabgpt_gpu* gpu, const char* parameter, float* values) {
  const Session* s = session_of(gpu);
  return status(s != nullptr && given("values", values) &&
                s->initial_values(parameter == nullptr ? "" : parameter, values));
}

int tabgpt_gpu_weights_changed(tabgpt_gpu* gpu) {
  Session* s = session_of(gpu);
  if (s == nullptr) return TABGPT_ERROR;
  s->weights_changed();
  return TABGPT_OK;
}

int tabgpt_gpu_set_tokens(tabgpt_gpu* gpu, const uint32_t* tokens, size_t count) {
  Session* s = session_of(gpu);
  return status(s != nullptr && s->set_tokens(tokens, count));
}

size_t tabgpt_gpu_step_number(const tabgpt_gpu* gpu) {
  const Session* s = session_of(gpu);
  return s == nullptr ? 0 : static_cast<size_t>(s->step_number());
}

int tabgpt_gpu_set_step_number(tabgpt_gpu* gpu, size_t step) {
  Session* s = session_of(gpu);
  return status(s != nullptr && s->set_step_number(step));
}

int tabgpt_gpu_fill_step(tabgpt_gpu* gpu, size_t micro) {
  Session* s = session_of(gpu);
  return status(s != nullptr && s->fill_step(micro));
}

int tabgpt_gpu_end_step(tabgpt_gpu* gpu) {
  Session* s = session_of(gpu);
  if (s == nullptr) return TABGPT_ERROR;
  s->end_step();
  return TABGPT_OK;
}

int tabgpt_gpu_read_stats(tabgpt_gpu* gpu, size_t step, const float* stats) {
  Session* s = session_of(gpu);
  if (s == nullptr || !given("stats", stats)) return TABGPT_ERROR;
  s->read_stats(step, stats);
  return TABGPT_OK;
}

double tabgpt_gpu_metric(const tabgpt_gpu* gpu, const char* name) {
  const Session* s = session_of(gpu);
  return s == nullptr ? kNaN : s->metrics().of_name(name);
}

int tabgpt_gpu_fill_batch(tabgpt_gpu* gpu, const uint32_t* tokens, const uint32_t* targets, size_t batch,
                          size_t length, int train, size_t step, size_t micro) {
  Session* s = session_of(gpu);
  Batch b;
  return status(s != nullptr && make_batch(tokens, targets, batch, length, train, step, micro, &b) &&
                s->fill_batch(b));
}

double tabgpt_gpu_mean_loss(const tabgpt_gpu* gpu, const float* losses) {
  const Session* s = session_of(gpu);
  return s != nullptr && given("losses", losses) ? s->mean_loss(losses) : kNaN;
}

int tabgpt_gpu_evaluate_begin(tabgpt_gpu* gpu, const char* split, size_t n_batches) {
  Session* s = session_of(gpu);
  return guarded<int>(TABGPT_ERROR, [&] {
    return status(s != nullptr && s->evaluate_begin(split == nullptr ? "" : split, n_batches));
  });
}

int tabgpt_gpu_evaluate_fill(tabgpt_gpu* gpu) {
  Session* s = session_of(gpu);
  return status(s != nullptr && s->evaluate_fill());
}

int tabgpt_gpu_evaluate_next(tabgpt_gpu* gpu, const float* losses) {
  Session* s = session_of(gpu);
  bool more = false;
  if (s == nullptr || !given("losses", losses) || !s->evaluate_next(losses, &more)) return TABGPT_ERROR;
  return more ? 1 : 0;
}

int tabgpt_gpu_generate_begin(tabgpt_gpu* gpu, const uint32_t* prompt, size_t count, double temperature,
                              size_t top_k, double top_p, uint32_t seed) {
  Session* s = session_of(gpu);
  return status(s != nullptr && s->generate_begin(prompt, count, {temperature, top_k, top_p, seed}));
}

int tabgpt_gpu_generate_fill(tabgpt_gpu* gpu) {
  Session* s = session_of(gpu);
  bool prefill = false;
  if (s == nullptr || !s->generate_fill(&prefill)) return TABGPT_ERROR;
  return prefill ? 1 : 0;
}

int32_t tabgpt_gpu_generate_next(tabgpt_gpu* gpu, const float* logits) {
  Session* s = session_of(gpu);
  uint32_t token = 0;
  return s != nullptr && given("logits", logits) && s->generate_next(logits, &token)
             ? static_cast<int32_t>(token)
             : TABGPT_ERROR;
}

}  // extern "C"
