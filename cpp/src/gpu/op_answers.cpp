#include "gpu/op_answers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "gpu/op_samples.hpp"
#include "philox.hpp"
#include "tabgpt/streams.hpp"

namespace tabgpt::gpu {

std::vector<OpTensor> op_inputs(const OpSizes& s) {
  if (s.kind == OpSizes::Kind::matmul) return {{"A", s.M * s.K}, {"B", s.K * s.N}};
  const OpTensor qkv{"h.0.attn.qkv", s.B * s.T * 3 * s.C(), 1.5};
  if (s.kind == OpSizes::Kind::attention_forward) return {qkv};
  return {qkv, {"grad:h.0.attn.out", s.B * s.T * s.C()}};
}

std::vector<OpTensor> op_results(const OpSizes& s) {
  if (s.kind == OpSizes::Kind::matmul) return {{"out", s.M * s.N}};
  if (s.kind == OpSizes::Kind::attention_forward) {
    return {{"h.0.attn.out", s.B * s.T * s.C()}, {"h.0.attn.lse", s.B * s.H * s.T}};
  }
  return {{"grad:h.0.attn.qkv", s.B * s.T * 3 * s.C()}};
}

void op_values(const OpTensor& input, uint32_t number, float* out) {
  philox::normals(out, input.count, input.scale, 0, 0, stream_c3(Use::init, 0, number));
}

std::vector<uint64_t> sampled_lines(uint64_t count) {
  std::vector<uint64_t> lines;
  for (uint64_t tile = 0; tile * kTile < count; ++tile) {
    const uint64_t begin = tile * kTile, size = std::min(kTile, count - begin);
    // The number within changes from tile to tile by a step that has no divisor in common with 64.
    for (uint64_t within : {uint64_t{0}, size - 1, (tile * 37 + 5) % size}) lines.push_back(begin + within);
  }
  for (uint64_t within = 0; within < std::min(kTile, count); within += 3) lines.push_back(within);
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

namespace {

/** value[j] = sum over k of v[k] Y(k, j), and the same of magnitudes; Y is stored [K, J], or [J, K]. */
void line(const std::vector<double>& v, const std::vector<float>& y, bool by_k, std::vector<double>& value,
          std::vector<double>& magnitude) {
  const size_t K = v.size(), J = value.size();
  if (!by_k) {
    for (size_t j = 0; j < J; ++j) {
      const float* row = y.data() + j * K;
      double sum[4] = {}, size[4] = {};
      for (size_t k = 0; k < K; ++k) {
        const double term = v[k] * row[k];
        sum[k % 4] += term;
        size[k % 4] += std::abs(term);
      }
      value[j] = sum[0] + sum[1] + sum[2] + sum[3];
      magnitude[j] = size[0] + size[1] + size[2] + size[3];
    }
    return;
  }
  std::fill(value.begin(), value.end(), 0.0);
  std::fill(magnitude.begin(), magnitude.end(), 0.0);
  for (size_t k = 0; k < K; ++k) {
    const float* row = y.data() + k * J;
    for (size_t j = 0; j < J; ++j) {
      const double term = v[k] * row[j];
      value[j] += term;
      magnitude[j] += std::abs(term);
    }
  }
}

}  // namespace

/** Whole rows and whole columns of out[M,N]. */
void OpAnswers::matmul() {
  const uint64_t M = sizes_.M, N = sizes_.N, K = sizes_.K;
  const std::vector<OpTensor> inputs = op_inputs(sizes_);
  std::vector<float> A(inputs[0].count), B(inputs[1].count);
  op_values(inputs[0], 0, A.data());
  op_values(inputs[1], 1, B.data());
  const bool a_by_k = sizes_.trans == 2, b_by_k = sizes_.trans != 1;
  Samples& out = samples_["out"];
  std::vector<double> v(K);
  const auto add = [&](uint64_t m, uint64_t n, double value, double magnitude) {
    const double bound = 2 * static_cast<double>(K) * kEps * magnitude + 2 * kEps * std::abs(value);
    out.add(m * N + n, value, bound, magnitude);
  };
  std::vector<double> value(N), magnitude(N);
  for (uint64_t m : sampled_lines(M)) {
    for (uint64_t k = 0; k < K; ++k) v[k] = a_by_k ? A[k * M + m] : A[m * K + k];
    line(v, B, b_by_k, value, magnitude);
    for (uint64_t n = 0; n < N; ++n) add(m, n, value[n], magnitude[n]);
  }
  value.resize(M);
  magnitude.resize(M);
  const std::vector<uint64_t> columns = sampled_lines(N);
  const size_t every = (columns.size() + kMostColumns - 1) / kMostColumns;
  for (size_t i = 0; i < columns.size(); i += every) {
    const uint64_t n = columns[i];
    for (uint64_t k = 0; k < K; ++k) v[k] = b_by_k ? B[k * N + n] : B[n * K + k];
    line(v, A, a_by_k, value, magnitude);
    for (uint64_t m = 0; m < M; ++m) add(m, n, value[m], magnitude[m]);
  }
}

double OpAnswers::worst(const OpTensor& result, const float* got, double rounding) {
  if (samples_.empty()) sizes_.kind == OpSizes::Kind::matmul ? matmul() : attention();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (uint64_t i = 0; i < result.count; ++i) {
    if (!std::isfinite(got[i])) return infinity;
  }
  const Samples& samples = samples_.find(result.name)->second;
  double largest = 0;
  for (size_t i = 0; i < samples.at.size(); ++i) {
    const double bound = samples.bound[i] + 2 * rounding * samples.magnitude[i] + kLeastBound;
    largest = std::max(largest, std::abs(got[samples.at[i]] - samples.value[i]) / bound);
  }
  return largest;
}

}  // namespace tabgpt::gpu
