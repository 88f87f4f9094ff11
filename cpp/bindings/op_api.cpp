/** The C ABI over gpu::Op. */
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "abi.hpp"
#include "gpu/op.hpp"

struct tabgpt_gpu_op {
  std::unique_ptr<tabgpt::gpu::Op> op;
};

namespace {

using namespace tabgpt::abi;
using tabgpt::fail;
using tabgpt::gpu::Op;
using tabgpt::gpu::Options;

Op* op_of(const tabgpt_gpu_op* handle) {
  if (handle == nullptr) return fail("the operation's handle is null; tabgpt_gpu_op_open gives one"), nullptr;
  return handle->op.get();
}

bool given(const void* values) {
  return values != nullptr || fail("values is a null pointer; pass an array");
}

std::string_view text(const char* given) { return given == nullptr ? "" : given; }

/** A bench may run what training may not. */
bool parse(const char* variants, Options* options) {
  return tabgpt::gpu::parse_variants(variants, tabgpt::gpu::Purpose::bench, &options->variants);
}

}  // namespace

extern "C" {

tabgpt_gpu_op* tabgpt_gpu_op_open(const char* operation) {
  return guarded<tabgpt_gpu_op*>(nullptr, [&]() -> tabgpt_gpu_op* {
    std::unique_ptr<Op> op = Op::open(text(operation));
    return op == nullptr ? nullptr : new tabgpt_gpu_op{std::move(op)};
  });
}

void tabgpt_gpu_op_close(tabgpt_gpu_op* op) { delete op; }

const char* tabgpt_gpu_op_plan(tabgpt_gpu_op* op, const char* variants, double max_binding_bytes,
                               double max_buffer_bytes) {
  Op* o = op_of(op);
  return guarded<const char*>(nullptr, [&]() -> const char* {
    Options options;
    if (o == nullptr ||
        !parse_limit("maxStorageBufferBindingSize", max_binding_bytes,
                     &options.limits.max_storage_buffer_binding_size) ||
        !parse_limit("maxBufferSize", max_buffer_bytes, &options.limits.max_buffer_size) ||
        !parse(variants, &options)) {
      return nullptr;
    }
    return o->plan(options);
  });
}

int tabgpt_gpu_op_input(const tabgpt_gpu_op* op, const char* name, float* values) {
  const Op* o = op_of(op);
  return guarded<int>(TABGPT_ERROR,
                      [&] { return status(o != nullptr && given(values) && o->input(text(name), values)); });
}

double tabgpt_gpu_op_check(tabgpt_gpu_op* op, const char* variants, const char* name, const float* got) {
  Op* o = op_of(op);
  return guarded<double>(kNaN, [&] {
    Options options;
    return o != nullptr && given(got) && parse(variants, &options) ? o->check(options, text(name), got)
                                                                   : kNaN;
  });
}

double tabgpt_step_flops(const tabgpt_config* config) {
  return tabgpt_config_check(config) == TABGPT_OK ? tabgpt::gpu::step_flops(config->config) : kNaN;
}

}  // extern "C"
