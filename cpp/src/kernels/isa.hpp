/** The table of one ISA's kernels. x86 builds two and chooses at run time; elsewhere there is one. */
#pragma once

#include "../threads.hpp"
#include "blocks.hpp"
#include "kernels.hpp"
#include "simd.hpp"

// Every kernel: its name, once. (clang-format would indent each X below the last.)
// clang-format off
#define TABGPT_KERNELS(X) \
  X(matmul) X(bias_backward) X(layernorm_forward) X(layernorm_backward) X(gelu_forward) \
  X(gelu_backward) X(dropout_apply) X(attention_forward) X(attention_backward) X(attention_decode) \
  X(embedding_forward) X(embedding_backward) X(cross_entropy_forward) X(cross_entropy_backward) \
  X(sum_of_squares) X(adamw)
// clang-format on

namespace tabgpt::kernels {

struct Table {
  const char* name;
#define TABGPT_FIELD(kernel) decltype(&kernels::kernel) kernel;
  TABGPT_KERNELS(TABGPT_FIELD)
#undef TABGPT_FIELD
};

namespace TABGPT_ISA {
#define TABGPT_DECLARE(kernel) decltype(kernels::kernel) kernel;
TABGPT_KERNELS(TABGPT_DECLARE)
#undef TABGPT_DECLARE
}  // namespace TABGPT_ISA

namespace base {
extern const Table table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Table table;
}
#endif

}  // namespace tabgpt::kernels
