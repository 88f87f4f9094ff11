/** The tied head: logits = ln_f.out wte^T and the loss, a chunk of rows at a time. */
#include "head.hpp"

#include <algorithm>
#include <cstring>

namespace tabgpt {

void logits(const Model& m, const float* x, size_t rows, float* out) {
  kernels::matmul(m.pool, m.workspace, Trans::NT, rows, m.config.vocab_size, m.config.d_model, x,
                  m.p(m.layout.wte), out);
}

namespace {

/** Logits and losses of rows [begin, begin + rows); returns where the logits lie, [rows, V]. */
float* chunk_forward(const Model& m, const Batch& batch, size_t begin, size_t rows) {
  const size_t V = m.config.vocab_size;
  float* z = m.a(m.plan.logits) + (m.plan.mode == Mode::probe ? begin * V : 0);
  logits(m, m.a(m.plan.ln_f) + begin * m.config.d_model, rows, z);
  kernels::cross_entropy_forward(m.pool, m.a(m.plan.losses) + begin, z, batch.targets + begin, rows, V);
  return z;
}

/** dlogits = (softmax - onehot) * scale; dln_f.out = dlogits wte; dwte (+)= dlogits^T ln_f.out. */
void chunk_backward(const Model& m, const Batch& batch, size_t begin, size_t rows, float* z, float scale,
                    bool add) {
  const size_t V = m.config.vocab_size, C = m.config.d_model;
  float* dz = z;
  if (m.plan.mode == Mode::probe) {
    dz = m.a(m.plan.d_logits) + begin * V;
    std::memcpy(dz, z, rows * V * sizeof(float));
  }
  kernels::cross_entropy_backward(m.pool, dz, batch.targets + begin, rows, V, scale);
  kernels::matmul(m.pool, m.workspace, Trans::NN, rows, C, V, dz, m.p(m.layout.wte),
                  m.a(m.plan.d_ln_f) + begin * C);
  kernels::matmul(m.pool, m.workspace, Trans::TN, V, C, rows, dz, m.a(m.plan.ln_f) + begin * C,
                  m.dp(m.layout.wte), {.accumulate = add});
}

double sum_of_losses(const Model& m, size_t rows) {
  const float* losses = m.a(m.plan.losses);
  double sum = 0;
  for (size_t r = 0; r < rows; ++r) sum += losses[r];
  return sum;
}

}  // namespace

double loss_sum(const Model& m, const Batch& batch) {
  for (size_t begin = 0; begin < batch.rows(); begin += m.plan.head_rows) {
    chunk_forward(m, batch, begin, std::min<size_t>(m.plan.head_rows, batch.rows() - begin));
  }
  return sum_of_losses(m, batch.rows());
}

double head_backward(const Model& m, const Batch& batch, float scale, bool add) {
  for (size_t begin = 0; begin < batch.rows(); begin += m.plan.head_rows) {
    const size_t rows = std::min<size_t>(m.plan.head_rows, batch.rows() - begin);
    chunk_backward(m, batch, begin, rows, chunk_forward(m, batch, begin, rows), scale, add || begin > 0);
  }
  return sum_of_losses(m, batch.rows());
}

}  // namespace tabgpt
