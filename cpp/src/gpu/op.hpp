/**
 * One operation by itself, as a bench runs it: its plan for any variant, its
 * inputs, and the check of what came out. A host uploads, runs, times, reads back.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/op_answers.hpp"
#include "gpu/plan.hpp"

namespace tabgpt::gpu {

class Op {
 public:
  /**
   * "matmul NN M K N" (or NT, TN), "attention forward B H T D" (or backward).
   * Errors (nullptr): another text, a size out of range.
   */
  static std::unique_ptr<Op> open(std::string_view text);

  /**
   * JSON as Plan's, with the programs "prepare" (once, before the first run: clears results, computes what a
   * backward pass reads) and "run", and the lists "inputs" and "results" of tensor names. Valid until the
   * next call. Errors (nullptr): a limit passed.
   */
  const char* plan(const Options& options);

  /** Values of an input, from Philox. Errors (false): an unknown name. */
  bool input(std::string_view name, float* values) const;

  /**
   * Largest error of a result as a share of its bound, over rows and columns beside every tile's edge and
   * some within: at most 1 where it is right, infinity where any element is not finite.
   * Errors (NaN): an unknown name.
   */
  double check(const Options& options, std::string_view name, const float* got);

  double flops() const;
  /** Each input read once, each result written once. */
  double bytes() const;

 private:
  explicit Op(const OpSizes& sizes) : sizes_(sizes), answers_(sizes) {}
  void emit(class Model& model, Builder& builder) const;

  const OpSizes sizes_;
  OpAnswers answers_;
  std::string json_;
};

/** Floating-point operations of the products of one optimizer step: matmuls and attention, both ways. */
double step_flops(const Config& config);

}  // namespace tabgpt::gpu
