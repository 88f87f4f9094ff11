#include "tabgpt/plan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tabgpt/error.hpp"
#include "tabgpt/layout.hpp"

namespace tabgpt {
namespace {

/**
 * The moments of a pass, in order. A tensor made at moment a and last read at
 * moment b may share its place with one that lives only before a or after b.
 */
struct Moments {
  uint32_t n_layer;

  static constexpr uint32_t embed = 0;
  enum Forward : uint32_t { ln_1, qkv, attn, attn_proj, ln_2, fc, mlp_proj, forward_count };
  enum Backward : uint32_t { d_mlp_proj, d_fc, d_ln_2, d_attn_proj, d_attn, d_qkv, d_ln_1, backward_count };

  uint32_t forward(uint32_t layer, Forward op) const { return 1 + layer * forward_count + op; }
  uint32_t ln_f() const { return 1 + n_layer * forward_count; }
  uint32_t head() const { return ln_f() + 1; }
  uint32_t d_ln_f() const { return head() + 1; }
  uint32_t backward(uint32_t layer, Backward op) const {
    return d_ln_f() + 1 + (n_layer - 1 - layer) * backward_count + op;
  }
  uint32_t d_embed() const { return d_ln_f() + 1 + n_layer * backward_count; }
  uint32_t end() const { return d_embed() + 1; }
};

}  // namespace

bool parse_mode(const char* text, Mode* mode) {
  const char* names[] = {"infer", "train", "probe"};
  for (int i = 0; i < 3; ++i) {
    if (text != nullptr && std::strcmp(text, names[i]) == 0) return *mode = static_cast<Mode>(i), true;
  }
  return fail("the mode is '%.100s'; it must be infer, train or probe", text == nullptr ? "" : text);
}

uint64_t head_chunk_rows(uint64_t vocab_size) {
  // About 4 MiB of logits, which a core's cache half holds, but at least 128 rows: each chunk
  // reads and writes all of wte's gradient once.
  return std::clamp<uint64_t>((uint64_t{1} << 20) / vocab_size, 128, 4096);
}

uint32_t Plan::add(std::string name, Axes axes, uint64_t width, uint32_t first, uint32_t last,
                   uint32_t shares) {
  slots.push_back({std::move(name), axes, width, rows_, first, last, shares});
  return static_cast<uint32_t>(slots.size() - 1);
}

void Plan::keep_until(uint32_t slot, uint32_t moment) {
  slots[slot].last = std::max(slots[slot].last, moment);
}

Plan::Plan(const Config& config, Mode mode)
    : mode(mode),
      head_rows(head_chunk_rows(config.vocab_size)),
      rows_(config.max_rows()),
      heads_(config.n_head) {
  forward_slots(config);
  if (mode != Mode::infer) backward_slots(config);
  if (mode == Mode::probe) {
    for (Slot& slot : slots) {
      slot.last = ~uint32_t{0};
      slot.shares = kNoSlot;
    }
  } else {
    slots[logits].rows = std::min(rows_, head_rows);
  }
  place();
}

void Plan::forward_slots(const Config& config) {
  const uint64_t C = config.d_model, F = config.mlp(), V = config.vocab_size;
  const auto L = static_cast<uint32_t>(config.n_layer);
  const Moments at{L};
  blocks.resize(L);

  embed_out = add("embed.out", Axes::BTN, C, at.embed, at.forward(0, at.attn_proj));
  uint32_t x = embed_out;
  for (uint32_t i = 0; i < L; ++i) {
    BlockSlots& b = blocks[i];
    const std::string h = "h." + std::to_string(i) + ".";
    const auto f = [&](Moments::Forward op) { return at.forward(i, op); };
    keep_until(x, f(at.attn_proj));
    b.ln_1 = add(h + "ln_1.out", Axes::BTN, C, f(at.ln_1), f(at.qkv));
    b.ln_1_mean = add(h + "ln_1.mean", Axes::BT, 1, f(at.ln_1), f(at.ln_1));
    b.ln_1_rstd = add(h + "ln_1.rstd", Axes::BT, 1, f(at.ln_1), f(at.ln_1));
    b.qkv = add(h + "attn.qkv", Axes::BTN, 3 * C, f(at.qkv), f(at.attn));
    b.lse = add(h + "attn.lse", Axes::BHT, heads_, f(at.attn), f(at.attn));
    b.attn = add(h + "attn.out", Axes::BTN, C, f(at.attn), f(at.attn_proj));
    b.resid_mid = add(h + "resid_mid", Axes::BTN, C, f(at.attn_proj), f(at.mlp_proj));
    b.ln_2 = add(h + "ln_2.out", Axes::BTN, C, f(at.ln_2), f(at.fc));
    b.ln_2_mean = add(h + "ln_2.mean", Axes::BT, 1, f(at.ln_2), f(at.ln_2));
    b.ln_2_rstd = add(h + "ln_2.rstd", Axes::BT, 1, f(at.ln_2), f(at.ln_2));
    if (mode == Mode::probe) b.fc = add(h + "mlp.fc", Axes::BTN, F, f(at.fc), f(at.fc));
    if (mode != Mode::infer) b.slope = add("", Axes::BTN, F, f(at.fc), f(at.fc));
    b.act = add(h + "mlp.act", Axes::BTN, F, f(at.fc), f(at.mlp_proj));
    b.resid_out = add(h + "resid_out", Axes::BTN, C, f(at.mlp_proj), f(at.mlp_proj));
    x = b.resid_out;
  }
  keep_until(x, at.ln_f());
  ln_f = add("ln_f.out", Axes::BTN, C, at.ln_f(), at.head());
  ln_f_mean = add("ln_f.mean", Axes::BT, 1, at.ln_f(), at.ln_f());
  ln_f_rstd = add("ln_f.rstd", Axes::BT, 1, at.ln_f(), at.ln_f());
  logits = add("logits", Axes::BTN, V, at.head(), at.head());
  losses = add("losses", Axes::BT, 1, at.head(), at.end());
}

void Plan::backward_slots(const Config& config) {
  const uint64_t C = config.d_model, F = config.mlp();
  const auto L = static_cast<uint32_t>(config.n_layer);
  const Moments at{L};

  if (mode == Mode::probe) d_logits = add("grad:logits", Axes::BTN, config.vocab_size, at.head(), at.head());
  d_ln_f = add("grad:ln_f.out", Axes::BTN, C, at.head(), at.d_ln_f());
  keep_until(ln_f_mean, at.d_ln_f());
  keep_until(ln_f_rstd, at.d_ln_f());
  keep_until(blocks[L - 1].resid_out, at.d_ln_f());
  if (config.dropout > 0) d_branch = add("", Axes::BTN, C, at.backward(L - 1, at.d_mlp_proj), at.d_embed());

  // The residual stream's gradient is one tensor that every block adds to in place.
  uint32_t stream = kNoSlot;
  for (uint32_t i = L; i-- > 0;) {
    BlockSlots& b = blocks[i];
    const std::string h = "grad:h." + std::to_string(i) + ".";
    const auto t = [&](Moments::Backward op) { return at.backward(i, op); };
    b.d_resid_out = add(h + "resid_out", Axes::BTN, C, at.d_ln_f(), at.d_embed(), stream);
    if (stream == kNoSlot) stream = b.d_resid_out;
    b.d_act = add(h + "mlp.act", Axes::BTN, F, t(at.d_mlp_proj), t(at.d_fc));
    b.d_fc = add(h + "mlp.fc", Axes::BTN, F, t(at.d_mlp_proj), t(at.d_fc), b.d_act);
    b.d_ln_2 = add(h + "ln_2.out", Axes::BTN, C, t(at.d_fc), t(at.d_ln_2));
    b.d_resid_mid = add(h + "resid_mid", Axes::BTN, C, t(at.d_ln_2), t(at.d_ln_2), stream);
    b.d_attn = add(h + "attn.out", Axes::BTN, C, t(at.d_attn_proj), t(at.d_attn));
    b.d_qkv = add(h + "attn.qkv", Axes::BTN, 3 * C, t(at.d_attn), t(at.d_qkv));
    b.d_ln_1 = add(h + "ln_1.out", Axes::BTN, C, t(at.d_qkv), t(at.d_ln_1));

    keep_until(b.act, t(at.d_mlp_proj));
    keep_until(b.slope, t(at.d_mlp_proj));
    keep_until(b.ln_2, t(at.d_fc));
    for (uint32_t slot : {b.resid_mid, b.ln_2_mean, b.ln_2_rstd}) keep_until(slot, t(at.d_ln_2));
    for (uint32_t slot : {b.attn, b.lse, b.qkv}) keep_until(slot, t(at.d_attn));
    keep_until(b.ln_1, t(at.d_qkv));
    const uint32_t x = i == 0 ? embed_out : blocks[i - 1].resid_out;
    for (uint32_t slot : {x, b.ln_1_mean, b.ln_1_rstd}) keep_until(slot, t(at.d_ln_1));
  }
  d_embed_out = add("grad:embed.out", Axes::BTN, C, at.d_embed(), at.d_embed(), stream);
}

/**
 * 1 GiB: a 32-bit build's malloc gives less than 2 GiB at once, whatever its memory. A larger
 * tensor widens every piece to its own size.
 */
constexpr uint64_t kPieceFloats = uint64_t{1} << 28;

/**
 * Greedy first fit: largest first, each at the lowest offset where no tensor
 * that lives at the same time lies and where it lies in one piece.
 */
void Plan::place() {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].shares == kNoSlot) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return slots[a].floats() > slots[b].floats(); });

  piece_floats = std::max(kPieceFloats, align_floats(slots[order.front()].floats()));
  const auto in_one_piece = [this](uint64_t offset, uint64_t floats) {
    const uint64_t begun = offset % piece_floats;
    return begun + floats <= piece_floats ? offset : offset - begun + piece_floats;
  };

  std::vector<uint32_t> placed;  // by offset
  for (uint32_t index : order) {
    Slot& slot = slots[index];
    const uint64_t floats = align_floats(slot.floats());
    uint64_t offset = 0;
    for (uint32_t other_index : placed) {
      const Slot& other = slots[other_index];
      if (other.last < slot.first || slot.last < other.first) continue;
      if (offset + floats <= other.offset) break;
      offset = in_one_piece(std::max(offset, other.offset + align_floats(other.floats())), floats);
    }
    slot.offset = offset;
    total_floats = std::max(total_floats, offset + floats);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](uint64_t value, uint32_t i) { return value < slots[i].offset; }),
                  index);
  }
  for (Slot& slot : slots) {
    if (slot.shares != kNoSlot) slot.offset = slots[slot.shares].offset;
  }
}

}  // namespace tabgpt
