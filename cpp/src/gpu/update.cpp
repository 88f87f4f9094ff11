/** What begins and ends an optimizer step: cleared gradients; norm, clip and AdamW over the arenas. */
#include "gpu/model.hpp"

namespace tabgpt::gpu {
namespace {

constexpr uint64_t kSquaresChunk = 4096;  ///< elements a workgroup of shaders/square_sums.wgsl takes

}  // namespace

void Model::begin_step() {
  for (const Fixed::Piece& piece : fixed_.pieces) builder_.clear(one(piece.gradients));
  builder_.clear(one(builder_.find("stats")));
}

void Model::update() {
  uint64_t chunks = 0;
  for (const Fixed::Piece& piece : fixed_.pieces) chunks += groups(one(piece.gradients).count, kSquaresChunk);
  const Range partials = scratch("scratch.squares", {chunks}), stats = one(builder_.find("stats"));
  uint64_t first = 0;
  for (const Fixed::Piece& piece : fixed_.pieces) {
    wgsl::square_sums kernel{.n = u32(one(piece.gradients).count), .first = u32(first)};
    kernel.x = one(piece.gradients);
    kernel.partials = partials;
    const uint64_t count = groups(kernel.n, kSquaresChunk);
    builder_.run("square_sums", kernel, folded(count));
    first += count;
  }
  wgsl::norm norm{.n = u32(chunks), .clip = static_cast<float>(config_.grad_clip)};
  norm.partials = partials;
  norm.stats = stats;
  builder_.run("norm", norm, {1, 1, 1});
  for (const Fixed::Piece& piece : fixed_.pieces) {
    wgsl::adamw kernel{.n = u32(one(piece.parameters).count), .decayed = u32(piece.decayed)};
    kernel.beta1 = static_cast<float>(config_.beta1);
    kernel.rest1 = static_cast<float>(1 - config_.beta1);
    kernel.beta2 = static_cast<float>(config_.beta2);
    kernel.rest2 = static_cast<float>(1 - config_.beta2);
    kernel.eps = static_cast<float>(config_.eps);
    kernel.step = one(fixed_.step);
    kernel.stats = stats;
    kernel.gradients = one(piece.gradients);
    kernel.parameters = one(piece.parameters);
    kernel.m = one(piece.m);
    kernel.v = one(piece.v);
    builder_.run("adamw", kernel, folded(groups(kernel.n, kernel.workgroup)));
  }
}

}  // namespace tabgpt::gpu
