/** The C ABI over Session: null checks, conversions, and nothing thrown. */
#include "tabgpt/c_api.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "abi.hpp"
#include "ops.hpp"
#include "tabgpt/arena.hpp"
#include "tabgpt/error.hpp"
#include "tabgpt/optimizer.hpp"
#include "tabgpt/session.hpp"

struct tabgpt_session {
  std::unique_ptr<tabgpt::Session> session;
};

namespace {

using namespace tabgpt::abi;
using tabgpt::Batch;
using tabgpt::Config;
using tabgpt::fail;
using tabgpt::NamedTensor;
using tabgpt::Session;

Session* session_of(const tabgpt_session* handle) {
  if (handle == nullptr) return fail("the session handle is null; tabgpt_open gives one"), nullptr;
  return handle->session.get();
}

/** The tensor and its sizes; false after an error. */
bool tensor_shape(const tabgpt_session* handle, const char* name, uint64_t dims[3], size_t* ndim) {
  const Session* session = session_of(handle);
  const NamedTensor* tensor = session == nullptr ? nullptr : session->find(name);
  if (tensor == nullptr) return false;
  *ndim = session->shape(*tensor, dims);
  return true;
}

}  // namespace

extern "C" {

const char* tabgpt_version(void) { return TABGPT_VERSION; }

const char* tabgpt_isa(void) { return tabgpt::kernels::isa(); }

int tabgpt_has_threads(void) { return TABGPT_THREADS; }

const char* tabgpt_last_error(void) { return tabgpt::last_error(); }

void* tabgpt_alloc(size_t bytes) {
  void* pointer = std::malloc(bytes == 0 ? 1 : bytes);
  if (pointer == nullptr) fail("no memory for %zu bytes of arguments; pass less at a time", bytes);
  return pointer;
}

void tabgpt_free(void* pointer) { std::free(pointer); }

double tabgpt_heap_bytes(void) { return tabgpt::heap_bytes(); }

/* -- config -- */

tabgpt_config* tabgpt_config_new(void) {
  auto* config = new (std::nothrow) tabgpt_config;
  if (config == nullptr)
    fail("no memory for a config's %zu bytes; close a session first", sizeof(tabgpt_config));
  return config;
}

void tabgpt_config_free(tabgpt_config* config) { delete config; }

size_t tabgpt_config_field_count(void) { return Config::field_count(); }

const char* tabgpt_config_field_name(size_t index) {
  const char* name = Config::field_name(index);
  if (name == nullptr) fail("config field %zu; there are %zu", index, Config::field_count());
  return name;
}

int tabgpt_config_set(tabgpt_config* config, const char* key, double value) {
  return status(config_of(config) != nullptr && config->config.set(key, value));
}

int tabgpt_config_set_choice(tabgpt_config* config, const char* key, const char* value) {
  return status(config_of(config) != nullptr && config->config.set_choice(key, value));
}

int tabgpt_config_check(const tabgpt_config* config) {
  return status(config_of(config) != nullptr && config->config.check());
}

double tabgpt_config_parameters(const tabgpt_config* config) {
  return guarded(kNaN, [&] {
    if (tabgpt_config_check(config) != TABGPT_OK) return kNaN;
    return static_cast<double>(tabgpt::Layout(config->config).count);
  });
}

double tabgpt_memory(const tabgpt_config* config, const char* mode, size_t n_threads, size_t n_tokens,
                     const char* role) {
  return guarded(kNaN, [&] {
    tabgpt::Mode parsed;
    if (tabgpt_config_check(config) != TABGPT_OK || !tabgpt::parse_mode(mode, &parsed)) return kNaN;
    const Config& c = config->config;
    uint64_t bytes;
    const tabgpt::Memory memory =
        tabgpt::plan_memory(c, tabgpt::Layout(c), tabgpt::Plan(c, parsed), n_threads, n_tokens);
    return memory.of_role(role, &bytes) ? static_cast<double>(bytes) : kNaN;
  });
}

double tabgpt_learning_rate(const tabgpt_config* config, size_t step) {
  return tabgpt_config_check(config) == TABGPT_OK ? tabgpt::learning_rate(config->config, step) : kNaN;
}

/* -- session -- */

tabgpt_session* tabgpt_open(const tabgpt_config* config, const char* mode, size_t n_threads) {
  return guarded<tabgpt_session*>(nullptr, [&]() -> tabgpt_session* {
    tabgpt::Mode parsed;
    if (tabgpt_config_check(config) != TABGPT_OK || !tabgpt::parse_mode(mode, &parsed)) return nullptr;
    std::unique_ptr<Session> session = Session::open(config->config, parsed, n_threads);
    return session == nullptr ? nullptr : new tabgpt_session{std::move(session)};
  });
}

void tabgpt_close(tabgpt_session* session) { delete session; }

size_t tabgpt_threads(const tabgpt_session* session) {
  const Session* s = session_of(session);
  return s == nullptr ? 0 : s->pool().size();
}

double tabgpt_thread_tiles(const tabgpt_session* session, size_t thread) {
  const Session* s = session_of(session);
  if (s == nullptr) return kNaN;
  if (thread >= s->pool().size())
    return fail("thread %zu; the session has %zu", thread, s->pool().size()), kNaN;
  return static_cast<double>(s->pool().tiles(thread));
}

int tabgpt_init_weights(tabgpt_session* session) {
  Session* s = session_of(session);
  if (s == nullptr) return TABGPT_ERROR;
  s->init_weights();
  return TABGPT_OK;
}

int tabgpt_set_tokens(tabgpt_session* session, const uint32_t* tokens, size_t count) {
  Session* s = session_of(session);
  return status(s != nullptr && s->set_tokens(tokens, count));
}

/* -- named tensors -- */

size_t tabgpt_tensor_count(const tabgpt_session* session) {
  const Session* s = session_of(session);
  return s == nullptr ? 0 : s->tensors().size();
}

const char* tabgpt_tensor_name(const tabgpt_session* session, size_t index) {
  const Session* s = session_of(session);
  if (s == nullptr) return nullptr;
  if (index >= s->tensors().size())
    return fail("tensor %zu; there are %zu", index, s->tensors().size()), nullptr;
  return s->tensors()[index].name.c_str();
}

float* tabgpt_tensor_data(tabgpt_session* session, const char* name) {
  const Session* s = session_of(session);
  const NamedTensor* tensor = s == nullptr ? nullptr : s->find(name);
  return tensor == nullptr ? nullptr : tensor->data;
}

size_t tabgpt_tensor_ndim(const tabgpt_session* session, const char* name) {
  uint64_t dims[3];
  size_t ndim = 0;
  return tensor_shape(session, name, dims, &ndim) ? ndim : 0;
}

size_t tabgpt_tensor_dim(const tabgpt_session* session, const char* name, size_t axis) {
  uint64_t dims[3];
  size_t ndim = 0;
  if (!tensor_shape(session, name, dims, &ndim)) return 0;
  if (axis >= ndim) return fail("axis %zu of '%.200s', which has %zu", axis, name, ndim), 0;
  return static_cast<size_t>(dims[axis]);
}

/* -- training -- */

size_t tabgpt_step_number(const tabgpt_session* session) {
  const Session* s = session_of(session);
  return s == nullptr ? 0 : static_cast<size_t>(s->step_number());
}

int tabgpt_set_step_number(tabgpt_session* session, size_t step) {
  Session* s = session_of(session);
  return status(s != nullptr && s->set_step_number(step));
}

int tabgpt_step(tabgpt_session* session) {
  Session* s = session_of(session);
  return status(s != nullptr && s->step());
}

double tabgpt_metric(const tabgpt_session* session, const char* name) {
  const Session* s = session_of(session);
  return s == nullptr ? kNaN : s->metrics().of_name(name);
}

int tabgpt_loss(tabgpt_session* session, const uint32_t* tokens, const uint32_t* targets, size_t batch,
                size_t length, int train, size_t step, size_t micro) {
  Session* s = session_of(session);
  Batch b;
  return status(s != nullptr && make_batch(tokens, targets, batch, length, train, step, micro, &b) &&
                s->loss(b));
}

int tabgpt_loss_and_grads(tabgpt_session* session, const uint32_t* tokens, const uint32_t* targets,
                          size_t batch, size_t length, int train, size_t step, size_t micro) {
  Session* s = session_of(session);
  Batch b;
  return status(s != nullptr && make_batch(tokens, targets, batch, length, train, step, micro, &b) &&
                s->loss_and_grads(b));
}

int tabgpt_logits(tabgpt_session* session, const uint32_t* tokens, size_t batch, size_t length,
                  float* logits) {
  Session* s = session_of(session);
  return status(s != nullptr && s->logits(tokens, batch, length, logits));
}

int tabgpt_evaluate_begin(tabgpt_session* session, const char* split, size_t n_batches) {
  Session* s = session_of(session);
  return guarded<int>(TABGPT_ERROR, [&] {
    return status(s != nullptr && s->evaluate_begin(split == nullptr ? "" : split, n_batches));
  });
}

int tabgpt_evaluate_next(tabgpt_session* session) {
  Session* s = session_of(session);
  bool more = false;
  if (s == nullptr || !s->evaluate_next(&more)) return TABGPT_ERROR;
  return more ? 1 : 0;
}

/* -- sampling -- */

int tabgpt_generate_begin(tabgpt_session* session, const uint32_t* prompt, size_t count, double temperature,
                          size_t top_k, double top_p, uint32_t seed) {
  Session* s = session_of(session);
  return status(s != nullptr && s->generate_begin(prompt, count, {temperature, top_k, top_p, seed}));
}

int32_t tabgpt_generate_next(tabgpt_session* session) {
  Session* s = session_of(session);
  uint32_t token = 0;
  return s != nullptr && s->generate_next(&token) ? static_cast<int32_t>(token) : TABGPT_ERROR;
}

/* -- single kernels -- */

int tabgpt_op(const char* name, const double* params, size_t n_params, float* const* tensors,
              size_t n_tensors, size_t n_threads) {
  return guarded<int>(TABGPT_ERROR, [&] {
    if (name == nullptr) return status(fail("the op's name is a null pointer; ops.cpp lists the names"));
    std::string error;
    if (tabgpt::run_op(name, params, n_params, tensors, n_tensors, n_threads, error)) return status(true);
    return status(fail("%s", error.c_str()));
  });
}

}  // extern "C"
