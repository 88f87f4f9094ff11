/** The tied head, a chunk of rows at a time, so that the full [R,V] need not exist outside of "probe". */
#include <algorithm>

#include "gpu/model.hpp"

namespace tabgpt::gpu {

uint64_t head_rows(const Config& config, uint64_t max_binding_bytes) {
  constexpr uint64_t step = kAlignmentBytes / 4;
  const uint64_t bindable = max_binding_bytes / (4 * config.vocab_size);
  const uint64_t rows = std::min(head_chunk_rows(config.vocab_size), bindable);
  return std::max<uint64_t>(rows / step, 1) * step;
}

/** The logits of a chunk's rows, [rows,V]. */
Range Model::head_chunk(uint64_t chunk, uint64_t* rows) {
  const uint64_t begin = chunk * head_rows_;
  *rows = std::min(head_rows_, R_ - begin);
  const bool whole = probe();
  const uint64_t held = whole ? R_ : std::min(head_rows_, R_);
  Range z = act("logits", whole ? std::vector<uint64_t>{B_, T_, V_} : std::vector<uint64_t>{held, V_});
  builder_.tensors[z.tensor].listed = true;
  z = {z.tensor, whole ? begin * V_ : 0, *rows * V_};
  const uint32_t x = builder_.find("ln_f.out");
  matmul("logits", {.trans = Product::NT,
                    .M = *rows,
                    .N = V_,
                    .K = C_,
                    .A = {x, begin * C_, *rows * C_},
                    .B = p(layout_.wte),
                    .out = z});
  return z;
}

void Model::logits(uint64_t chunk) {
  uint64_t rows;
  head_chunk(chunk, &rows);
}

Range Model::cross_entropy(uint64_t chunk, uint64_t rows, Range z, bool backward) {
  const uint64_t begin = chunk * head_rows_;
  const Range losses = act("losses", {B_, T_});
  builder_.tensors[losses.tensor].listed = builder_.tensors[losses.tensor].kept = true;
  wgsl::cross_entropy kernel{.rows = u32(rows), .width = u32(V_)};
  kernel.step = one(fixed_.step);
  kernel.targets = {fixed_.targets, begin, rows};
  kernel.logits = z;
  kernel.losses = {losses.tensor, begin, rows};
  kernel.BACKWARD = backward;
  builder_.run("losses", kernel, folded(rows));
  return losses;
}

void Model::losses() {
  for (uint64_t chunk = 0; chunk < chunks(); ++chunk) {
    uint64_t rows;
    const Range z = head_chunk(chunk, &rows);
    cross_entropy(chunk, rows, z, false);
  }
}

/** dlogits = (softmax - onehot) loss_scale; dln_f.out = dlogits wte; dwte += dlogits^T ln_f.out. */
void Model::head_backward() {
  const Range x = channels("ln_f.out"), dx = channels("grad:ln_f.out");
  Range losses{};
  for (uint64_t chunk = 0; chunk < chunks(); ++chunk) {
    const uint64_t begin = chunk * head_rows_;
    uint64_t rows;
    const Range z = head_chunk(chunk, &rows);
    Range dz = z;
    if (probe()) {
      dz.tensor = act("grad:logits", {B_, T_, V_}).tensor;
      builder_.copy(z, dz);
    }
    losses = cross_entropy(chunk, rows, dz, true);
    matmul("grad:ln_f.out", {.trans = Product::NN,
                             .M = rows,
                             .N = C_,
                             .K = V_,
                             .A = dz,
                             .B = p(layout_.wte),
                             .out = {dx.tensor, begin * C_, rows * C_}});
    matmul("grad:wte (head)", {.trans = Product::TN,
                               .M = V_,
                               .N = C_,
                               .K = rows,
                               .A = dz,
                               .B = {x.tensor, begin * C_, rows * C_},
                               .out = dp(layout_.wte),
                               .accumulate = true});
  }
  wgsl::sum_losses kernel{.n = u32(R_)};
  kernel.losses = losses;
  kernel.stats = builder_.all(builder_.find("stats"));
  builder_.run("sum_losses", kernel, {1, 1, 1});
}

}  // namespace tabgpt::gpu
