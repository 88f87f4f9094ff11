/**
 * Where each parameter lies. Parameters, gradients, m and v are four arenas of
 * one layout: decayed tensors first, then the others, each on a 256-byte
 * boundary (WebGPU's binding alignment), the padding zero. The order is the
 * tensor number that initialisation draws by.
 */
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tabgpt/config.hpp"

namespace tabgpt {

constexpr uint64_t kAlignmentBytes = 256;

/** Bytes or floats rounded up to a multiple of 256 bytes. */
constexpr uint64_t align_bytes(uint64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}
constexpr uint64_t align_floats(uint64_t floats) { return align_bytes(4 * floats) / 4; }

/** One parameter: Hugging Face's name, and where it is and how it starts. */
struct Parameter {
  std::string name;
  std::array<uint64_t, 2> shape;  ///< a vector has shape[1] == 0
  double std;                     ///< of its normal distribution; 0: starts at `fill`
  float fill;
  uint64_t offset = 0;  ///< floats from the arena's start

  uint64_t count() const { return shape[1] == 0 ? shape[0] : shape[0] * shape[1]; }
};

/** A block's parameters, as indices into Layout::parameters. */
struct BlockParameters {
  uint32_t attn_w, attn_proj_w, fc_w, mlp_proj_w;
  uint32_t ln_1_w, ln_1_b, attn_b, attn_proj_b, ln_2_w, ln_2_b, fc_b, mlp_proj_b;
};

struct Layout {
  explicit Layout(const Config& config);

  std::vector<Parameter> parameters;
  uint32_t wte, wpe, ln_f_w, ln_f_b;
  std::vector<BlockParameters> blocks;
  uint64_t decayed_floats = 0;  ///< [0, decayed_floats) decays, the rest does not
  uint64_t total_floats = 0;    ///< of one arena, padding included
  uint64_t count = 0;           ///< parameters, without padding

  /**
   * Elements [first, first + count) of a parameter's starting values, its tensor number being its index.
   * `first` is a multiple of 4: a Philox block makes four normals.
   */
  void initial_values(uint32_t number, uint32_t seed, uint64_t first, uint64_t count, float* out) const;

 private:
  uint32_t add(std::string name, uint64_t rows, uint64_t columns, double std, float fill = 0);
};

}  // namespace tabgpt
