/** Causal attention in float64, row by row of one head, with bounds carried through its formulas. */
#include <algorithm>
#include <cmath>

#include "gpu/op_answers.hpp"
#include "gpu/op_samples.hpp"

namespace tabgpt::gpu {
namespace {

/** Every head up to this length has its rows checked at both ends of the batch; longer ones at one. */
constexpr uint64_t kLengthOfTwoHeads = 1024;

/** A score and what depends on it alone. */
struct Score {
  double value, magnitude;
};

/** q, k, v and dout [T,D] of one head, and what its forward pass gives. */
struct Head {
  Head(uint64_t length, uint64_t head_dim)
      : T(length), D(head_dim), scale(1 / std::sqrt(static_cast<double>(D))), lse(T), lse_bound(T) {
    for (std::vector<double>* x : {&q, &k, &v, &dout, &out, &out_bound}) x->assign(T * D, 0);
  }

  uint64_t T, D;
  double scale;
  std::vector<double> q, k, v, dout, out, out_bound;
  std::vector<double> lse, lse_bound;  ///< [T]

  Score score(uint64_t i, uint64_t j) const {
    const double *x = &q[i * D], *y = &k[j * D];
    double value = 0, magnitude = 0;
    for (uint64_t d = 0; d < D; ++d) {
      value += x[d] * y[d];
      magnitude += std::abs(x[d] * y[d]);
    }
    return {value * scale, magnitude * scale};
  }

  /** Relative error of exp(score - lse) for an exact lse. */
  double relative(const Score& s, double lse_i) const {
    return static_cast<double>(D + 2) * kEps * s.magnitude + kEps * (std::abs(s.value) + std::abs(lse_i)) +
           kExp;
  }

  /** Of a sum over up to T keys. */
  double rounding() const { return static_cast<double>(T + 4) * kEps; }

  void forward(uint64_t i) {
    std::vector<Score> scores(i + 1);
    double top = -1e300, sum = 0;
    for (uint64_t j = 0; j <= i; ++j) {
      scores[j] = score(i, j);
      top = std::max(top, scores[j].value);
    }
    for (const Score& s : scores) sum += std::exp(s.value - top);
    lse[i] = top + std::log(sum);
    double row = rounding();
    for (const Score& s : scores) row += std::exp(s.value - lse[i]) * relative(s, lse[i]);
    lse_bound[i] = row + kEps * std::abs(lse[i]);
    double *o = &out[i * D], *bound = &out_bound[i * D];
    for (uint64_t j = 0; j <= i; ++j) {
      const double p = std::exp(scores[j].value - lse[i]);
      const double error = p * (relative(scores[j], lse[i]) + row + rounding());
      for (uint64_t d = 0; d < D; ++d) {
        o[d] += p * v[j * D + d];
        bound[d] += error * std::abs(v[j * D + d]);
      }
    }
  }

  /** What the pair (query i, key j) gives to the gradients. */
  struct Pair {
    double p, p_bound;    ///< probability
    double ds, ds_bound;  ///< gradient of the score, times scale; bound of it and of its sum's rounding
  };

  Pair backward(uint64_t i, uint64_t j) const {
    const Score s = score(i, j);
    const double* dy = &dout[i * D];
    double dp = 0, dp_size = 0, dot = 0, dot_size = 0, dot_bound = 0;
    for (uint64_t d = 0; d < D; ++d) {
      dp += dy[d] * v[j * D + d];
      dp_size += std::abs(dy[d] * v[j * D + d]);
      dot += dy[d] * out[i * D + d];
      dot_size += std::abs(dy[d] * out[i * D + d]);
      dot_bound += std::abs(dy[d]) * out_bound[i * D + d];  // the kernel has its own out
    }
    const double p = std::exp(s.value - lse[i]);
    const double error = relative(s, lse[i]) + lse_bound[i];  // and its own lse
    const double size = p * (dp_size + dot_size) * scale;
    const double ds_bound =
        size * (error + static_cast<double>(D + 6) * kEps + rounding()) + p * scale * dot_bound;
    return {p, p * (error + rounding()), p * (dp - dot) * scale, ds_bound};
  }
};

}  // namespace

void OpAnswers::attention() {
  const OpSizes& s = sizes_;
  const uint64_t T = s.T, D = s.D, C = s.C();
  const bool backward = s.kind == OpSizes::Kind::attention_backward;
  const std::vector<OpTensor> inputs = op_inputs(s);
  std::vector<float> qkv(inputs[0].count), dout(backward ? inputs[1].count : 0);
  op_values(inputs[0], 0, qkv.data());
  if (backward) op_values(inputs[1], 1, dout.data());
  const std::vector<uint64_t> rows = sampled_lines(T);

  const auto one_head = [&](uint64_t b, uint64_t h) {
    Head head(T, D);
    for (uint64_t t = 0; t < T; ++t) {
      const uint64_t row = b * T + t;
      for (uint64_t d = 0; d < D; ++d) {
        const float* x = &qkv[row * 3 * C + h * D + d];
        head.q[t * D + d] = x[0];
        head.k[t * D + d] = x[C];
        head.v[t * D + d] = x[2 * C];
        if (backward) head.dout[t * D + d] = dout[row * C + h * D + d];
      }
    }
    if (!backward) {
      Samples &out = samples_["h.0.attn.out"], &lse = samples_["h.0.attn.lse"];
      for (uint64_t t : rows) {
        head.forward(t);
        lse.add((b * s.H + h) * T + t, head.lse[t], head.lse_bound[t], 0);
        for (uint64_t d = 0; d < D; ++d) {
          out.add((b * T + t) * C + h * D + d, head.out[t * D + d], head.out_bound[t * D + d], 0);
        }
      }
      return;
    }
    for (uint64_t t = 0; t < T; ++t) head.forward(t);
    Samples& dqkv = samples_["grad:h.0.attn.qkv"];
    std::vector<double> value(3 * D), bound(3 * D);
    for (uint64_t t : rows) {
      std::fill(value.begin(), value.end(), 0.0);
      std::fill(bound.begin(), bound.end(), 0.0);
      const auto add = [&](uint64_t at, double factor, double error, const double* x) {
        for (uint64_t d = 0; d < D; ++d) {
          value[at * D + d] += factor * x[d];
          bound[at * D + d] += error * std::abs(x[d]);
        }
      };
      for (uint64_t j = 0; j <= t; ++j) {
        const Head::Pair pair = head.backward(t, j);
        add(0, pair.ds, pair.ds_bound, &head.k[j * D]);
      }
      for (uint64_t i = t; i < T; ++i) {
        const Head::Pair pair = head.backward(i, t);
        add(1, pair.ds, pair.ds_bound, &head.q[i * D]);
        add(2, pair.p, pair.p_bound, &head.dout[i * D]);
      }
      for (uint64_t part = 0; part < 3; ++part) {
        for (uint64_t d = 0; d < D; ++d) {
          dqkv.add((b * T + t) * 3 * C + part * C + h * D + d, value[part * D + d], bound[part * D + d], 0);
        }
      }
    }
  };
  one_head(s.B - 1, s.H - 1);
  if (T <= kLengthOfTwoHeads && s.B * s.H > 1) one_head(0, 0);
}

}  // namespace tabgpt::gpu
