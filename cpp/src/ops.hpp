/** Single kernels by name, on the caller's buffers: what parity tests and benches call. */
#pragma once

#include <cstddef>
#include <string>

namespace tabgpt {

/**
 * Runs one kernel. Names, parameters and tensors are listed in ops.cpp; u32 tensors (tokens, targets) are
 * passed by their bits. On failure returns false and says in `error` what was wrong.
 *
 * Pool and scratch are kept between calls and rebuilt when n_threads changes, so that timings are of the
 * kernel; a call with n_threads 1 holds no worker.
 */
bool run_op(const char* name, const double* params, size_t n_params, float* const* tensors, size_t n_tensors,
            size_t n_threads, std::string& error);

}  // namespace tabgpt
