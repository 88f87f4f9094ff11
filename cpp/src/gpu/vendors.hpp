/**
 * What a plan takes from the maker of the GPU: constants of its products, before any measuring.
 *
 * By count from public figures, untested on hardware. The tuning (tune.py, tune.ts) measures instead, and
 * a choice that names a kernel has that kernel on every GPU.
 */
#pragma once

#include <cstdint>
#include <string_view>

#include "gpu/variants.hpp"

namespace tabgpt::gpu {

struct Vendor {
  std::string_view name;  ///< as WebGPU's GPUAdapterInfo.vendor has it
  Matmul matmul;          ///< the product kernel where a choice names none: its tile
  /** A product of fewer tiles is summed in parts of K. The most cores of one of its GPUs: a core without a
   * tile costs more than partial sums, of which a part moves a fourth of what it reads at most. */
  uint64_t full_grid;
};

/** For GPUs of other makers, and where the maker is not told. */
constexpr Vendor kAnyVendor = {"", Matmul::vec4, 64};

// vec4 everywhere: of the kernels that training is offered it has the least floor on every GPU that is
// counted (bench/matmul_counts.py), because it reads workgroup memory least.
constexpr Vendor kVendors[] = {
    // 170 multiprocessors of a GeForce RTX 5090: NVIDIA RTX Blackwell GPU Architecture, table 1.
    {"nvidia", Matmul::vec4, 170},
    // 96 compute units of a Radeon RX 7900 XTX: its product page. Workgroup memory gives 128 bits a read
    // (RDNA 3 Instruction Set Architecture, DS_LOAD_B128).
    {"amd", Matmul::vec4, 96},
    // 32 Xe cores of an Arc A770: its product page.
    {"intel", Matmul::vec4, 32},
    // 40 cores of an M4 Max: its technical specifications.
    {"apple", Matmul::vec4, 40},
    // 6 shader processors of an Adreno X1-85: Qualcomm's announcement of June 2024.
    {"qualcomm", Matmul::vec4, 6},
    // 24 cores of an Immortalis-G925: its product page. Workgroup memory is main memory in a cache
    // (Arm GPU Best Practices, Shared memory), one more reason to read it least.
    {"arm", Matmul::vec4, 24},
};

}  // namespace tabgpt::gpu
