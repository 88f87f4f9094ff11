/**
 * One pass over a batch: forward, loss, backward. Pointers into the session's
 * arenas and the sizes; it owns nothing, allocates nothing and cannot fail.
 *
 * B sequences of T tokens (R = B * T rows), C = H * D channels, F of the MLP, V ids.
 */
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "tabgpt/arena.hpp"
#include "tabgpt/batches.hpp"
#include "tabgpt/config.hpp"
#include "tabgpt/layout.hpp"
#include "tabgpt/plan.hpp"
#include "tabgpt/streams.hpp"

namespace tabgpt {

/** Keys and values of one sequence: [n_layer][k, v][H, ctx, D]. */
struct KvCache {
  float* data = nullptr;
  size_t ctx = 0, C = 0;

  float* keys(size_t layer) const { return data + 2 * layer * ctx * C; }
  float* values(size_t layer) const { return keys(layer) + ctx * C; }
};

struct Model {
  const Config& config;
  const Layout& layout;
  const Plan& plan;
  Pool& pool;
  void* workspace;
  float* parameters;
  float* gradients;  ///< nullptr in "infer"
  const Pieces& activations;

  float* p(uint32_t index) const { return parameters + layout.parameters[index].offset; }
  float* dp(uint32_t index) const { return gradients + layout.parameters[index].offset; }
  /** nullptr for a tensor that the mode does not hold. */
  float* a(uint32_t slot) const {
    return slot == kNoSlot ? nullptr : activations.at(plan.slots[slot].offset);
  }
  Gelu gelu() const { return config.activation == Activation::gelu_tanh ? Gelu::tanh : Gelu::erf; }
  /** Threshold 0 outside of training. */
  Dropout dropout(const Batch& batch, Site site, uint32_t layer) const;
};

/** Bytes of kernel scratch that any pass of this model needs. */
uint64_t workspace_bytes(const Config& config, const Plan& plan, size_t n_threads);

/** Embedding to ln_f.out. With a cache (B = 1), keeps each layer's keys and values of positions 0..T-1. */
void forward(const Model& model, const Batch& batch, const KvCache* cache = nullptr);

/** One token at `position` (cached positions before it): x is the caller's scratch; leaves ln_f.out in x.out.
 */
struct DecodeRow {
  float *x, *mid, *norm, *qkv, *attn, *act;  ///< [C], [C], [C], [3C], [C], [F]
  float *mean, *rstd;                        ///< [1]
};
void decode(const Model& model, const DecodeRow& row, const KvCache& cache, uint32_t token, size_t position);

/** out[R,V] = x[R,C] wte^T. */
void logits(const Model& model, const float* x, size_t rows, float* out);

/** Losses of ln_f.out's rows against the targets; returns their sum in float64. */
double loss_sum(const Model& model, const Batch& batch);

/**
 * The same, then gradients of `scale` * sum of losses: added to every gradient
 * tensor, or put in its place where not `add`; leaves the activations'
 * gradients in the plan's places.
 */
double loss_sum_and_backward(const Model& model, const Batch& batch, float scale, bool add);

}  // namespace tabgpt
