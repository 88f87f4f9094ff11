/** Which Philox stream each random number of a session is of (DESIGN.md, Randomness). */
#pragma once

#include <cmath>
#include <cstdint>

namespace tabgpt {

/** What a number is for: c3's bits 31-24. */
enum class Use : uint32_t { init = 1, batch, dropout, sampling, evaluation };

/** Sites of dropout, c3's bits 3-0. */
enum class Site : uint32_t { embedding, attention, attention_residual, mlp_residual };

/** layer: or the tensor's number for init. */
constexpr uint32_t stream_c3(Use use, uint32_t micro = 0, uint32_t layer = 0, Site site = Site{}) {
  return static_cast<uint32_t>(use) << 24 | micro << 16 | layer << 4 | static_cast<uint32_t>(site);
}

/** Dropout keeps where the u32 is at least this. */
inline uint32_t dropout_threshold(double p) { return static_cast<uint32_t>(std::floor(p * 4294967296.0)); }

/** What dropout multiplies the kept values by. */
constexpr float dropout_scale(double p) { return static_cast<float>(1.0 / (1.0 - p)); }

}  // namespace tabgpt
