/**
 * The activations of one pass: every tensor's name, shape, lifetime and place.
 *
 * Planned once per (config, mode) for the largest batch, [batch_size, ctx]. A
 * pass over fewer rows uses the front of each place, so that offsets never
 * change. Two tensors share memory when their lifetimes do not meet; "probe"
 * lets everything live to the end, so that each can be read by name.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tabgpt/config.hpp"

namespace tabgpt {

enum class Mode { infer, train, probe };

/** Errors (false): not one of "infer", "train", "probe". */
bool parse_mode(const char* text, Mode* mode);

/** The axes of an activation: [B,T], [B,H,T], or [B,T,width]. */
enum class Axes { BT, BHT, BTN };

/** A slot number that no tensor has: the mode does not hold the tensor. */
constexpr uint32_t kNoSlot = ~uint32_t{0};

struct Slot {
  std::string name;  ///< as DESIGN.md's named tensors; "grad:" + name for gradients
  Axes axes;
  uint64_t width;        ///< N of [B,T,N]; H of [B,H,T]; 1 for [B,T]
  uint64_t rows;         ///< tokens the place has room for: batch_size * ctx, or one chunk of the head
  uint32_t first, last;  ///< moments of the pass between which the tensor lives
  uint32_t shares;       ///< slot whose place it takes over in place, or kNoSlot
  uint64_t offset = 0;   ///< floats from the start of the first piece

  uint64_t floats() const { return rows * width; }
};

/** A block's activations and their gradients, as indices into Plan::slots. */
struct BlockSlots {
  uint32_t ln_1, ln_1_mean, ln_1_rstd, qkv, lse, attn, resid_mid, ln_2, ln_2_mean, ln_2_rstd;
  uint32_t fc = kNoSlot;     ///< what precedes GELU; "probe" only
  uint32_t slope = kNoSlot;  ///< gelu'(fc), which is all that the backward pass needs; absent from "infer"
  uint32_t act, resid_out;
  uint32_t d_resid_out, d_act, d_fc, d_ln_2, d_resid_mid, d_attn, d_qkv, d_ln_1;
};

struct Plan {
  Plan(const Config& config, Mode mode);

  Mode mode;
  std::vector<Slot> slots;
  std::vector<BlockSlots> blocks;
  uint32_t embed_out, ln_f, ln_f_mean, ln_f_rstd, logits, losses;
  uint32_t d_logits = kNoSlot;  ///< "probe" only; elsewhere the logits become their gradient in place
  uint32_t d_ln_f = kNoSlot, d_embed_out = kNoSlot;
  uint32_t d_branch = kNoSlot;  ///< a residual branch's gradient behind its dropout; absent when dropout is 0
  uint64_t head_rows;           ///< rows of logits made at a time
  uint64_t total_floats = 0;
  uint64_t piece_floats =
      0;  ///< no tensor lies across a multiple of this: the memory may come in such pieces

 private:
  void forward_slots(const Config& config);
  void backward_slots(const Config& config);
  uint32_t add(std::string name, Axes axes, uint64_t width, uint32_t first, uint32_t last,
               uint32_t shares = kNoSlot);
  void keep_until(uint32_t slot, uint32_t moment);
  void place();

  uint64_t rows_, heads_;
};

/**
 * Rows of logits that the head computes at a time, so that the full [B*T, V]
 * need not exist. Depends on the vocabulary alone: the order in which wte's
 * gradient is summed, and so its last bits, follow from it.
 */
uint64_t head_chunk_rows(uint64_t vocab_size);

}  // namespace tabgpt
