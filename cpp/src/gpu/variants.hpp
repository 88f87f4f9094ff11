/**
 * The kernels that a plan chooses between, by name: the one list of them, for every host.
 *
 * A choice is a text of words, "matmul=naive attention=plain feature=shader-f16 vendor=nvidia": families that
 * it leaves out have their first variant, features are those of WebGPU that the device has, and the vendor,
 * whose products may differ (vendors.hpp), is as WebGPU names it; any other name has no constants of its own.
 */
#pragma once

#include <cstdint>
#include <string>

namespace tabgpt::gpu {

/** shaders/matmul_*.wgsl. */
enum class Matmul : uint32_t { vec4, blocked4, tiled, naive, subgroup, f16, blocked8, tiled_f16, f16_packed };
/** shaders/attention_*.wgsl and flash_*.wgsl. */
enum class Attention : uint32_t { flash, plain };

struct Variants {
  Matmul matmul = Matmul::vec4;
  Attention attention = Attention::flash;
  uint64_t full_grid = 64;  ///< tiles of a product from which on K is not summed in parts
};

/** What a choice is for: some variants are there to be measured, never to train with. */
enum class Purpose { training, bench };

/** Errors (false): an unknown word or name; one not offered for this use; a feature that is not given. */
bool parse_variants(const char* text, Purpose purpose, Variants* variants);

/** JSON: [{"family", "name", "feature" (of WebGPU, "" for none), "training" (else bench only), "default"}].
 */
const std::string& variants_json();

}  // namespace tabgpt::gpu
