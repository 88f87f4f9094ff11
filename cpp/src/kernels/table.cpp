#include "isa.hpp"

namespace tabgpt::kernels::TABGPT_ISA {

const Table table = {TABGPT_ISA_NAME,
#define TABGPT_ENTRY(kernel) kernel,
                     TABGPT_KERNELS(TABGPT_ENTRY)
#undef TABGPT_ENTRY
};

}  // namespace tabgpt::kernels::TABGPT_ISA
