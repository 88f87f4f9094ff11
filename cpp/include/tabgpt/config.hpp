/**
 * The hyper-parameters the core needs: presets.json's groups "model" and
 * "train", and vocab_size. Defaults are the hosts' affair (presets.json holds
 * them); here every field must be set before check() passes.
 */
#pragma once

#include <cstddef>
#include <cstdint>

namespace tabgpt {

/** Order as in presets.json's choices; config.cpp asserts it. */
enum class Activation : uint32_t { gelu_tanh, gelu_erf };
enum class Schedule : uint32_t { cosine, constant };

struct Config {
  uint64_t vocab_size = 0;  ///< V
  uint64_t ctx = 0;         ///< longest window, T
  uint64_t n_layer = 0;
  uint64_t n_head = 0;   ///< H
  uint64_t d_model = 0;  ///< C
  uint64_t d_mlp = 0;    ///< 0 is 4 * d_model; read mlp()
  double dropout = 0;
  Activation activation{};
  uint64_t batch_size = 0;  ///< B, rows of a micro-batch
  uint64_t grad_accum = 0;
  uint64_t steps = 0;
  double lr = 0;
  Schedule schedule{};
  double min_lr_ratio = 0;
  uint64_t warmup_steps = 0;
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double grad_clip = 0;  ///< 0 is off
  uint64_t seed = 0;     ///< u32

  uint64_t set_mask = 0;  ///< bit i: field i of the table was set

  uint64_t mlp() const { return d_mlp != 0 ? d_mlp : 4 * d_model; }
  uint64_t head_dim() const { return d_model / n_head; }
  uint64_t max_rows() const { return batch_size * ctx; }

  /** Errors (false): unknown key, a choice, NaN, a fraction in a whole number, out of range. */
  bool set(const char* key, double value);
  /** Errors (false): unknown key, a number, an unknown choice. */
  bool set_choice(const char* key, const char* value);
  /** Every field set, and the rules between fields. */
  bool check() const;

  static size_t field_count();
  /** nullptr past the end. */
  static const char* field_name(size_t index);
};

}  // namespace tabgpt
