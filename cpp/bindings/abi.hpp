/** What both halves of the C ABI share: handles, null checks, conversions. */
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>

#include "tabgpt/batches.hpp"
#include "tabgpt/c_api.h"
#include "tabgpt/config.hpp"
#include "tabgpt/error.hpp"

struct tabgpt_config {
  tabgpt::Config config;
};

namespace tabgpt::abi {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/** f(), or `failure` where the standard library threw: names and tables that found no memory. */
template <typename R, typename F>
R guarded(R failure, F f) {
#ifdef __cpp_exceptions
  try {
    return f();
  } catch (const std::exception& error) {
    fail("the core ran out of memory for its tables (%s); use a smaller model", error.what());
    return failure;
  }
#else
  (void)failure;
  return f();
#endif
}

inline const Config* config_of(const tabgpt_config* handle) {
  if (handle == nullptr) return fail("the config handle is null; make one with tabgpt_config_new"), nullptr;
  return &handle->config;
}

/** A device's limit in bytes. Where it is more than a binding's 32-bit size may be, that is the limit. */
inline bool parse_limit(const char* name, double value, uint64_t* bytes) {
  if (!(value >= 1)) return fail("%s is %.12g bytes; it must be at least 1", name, value);
  *bytes = static_cast<uint64_t>(std::min(value, 4294967292.0));
  return true;
}

inline int status(bool ok) { return ok ? TABGPT_OK : TABGPT_ERROR; }

inline bool make_batch(const uint32_t* tokens, const uint32_t* targets, size_t batch, size_t length,
                       int train, size_t step, size_t micro, Batch* out) {
  if (step > UINT32_MAX || micro > 255) {
    return fail("step is %zu and micro %zu; they go to 4294967295 and 255", step, micro);
  }
  *out = {
      tokens, targets, batch, length, train != 0, static_cast<uint32_t>(step), static_cast<uint32_t>(micro)};
  return true;
}

}  // namespace tabgpt::abi
