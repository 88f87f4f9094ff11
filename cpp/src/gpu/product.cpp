/** Products: which kernel computes one, and in how many parts of K. */
#include <algorithm>

#include "gpu/model.hpp"

namespace tabgpt::gpu {
namespace {

/** Rows and columns of a workgroup's part of the product. */
constexpr uint32_t kSmallTile = 16, kLargeTile = 64, kHugeTile = 128;
/** Of K in a part: it reads 2 x 64 x 256 operands of its tile then, for 64 x 64 sums to be written and read.
 */
constexpr uint64_t kLeastDepth = 256;

/** Fewer workgroups than a full grid leave cores idle; more would move more partial sums than they save. */
uint64_t parts_of(uint64_t workgroups, uint64_t full_grid, uint64_t K) {
  if (workgroups >= full_grid) return 1;
  return std::clamp<uint64_t>(K / kLeastDepth, 1, groups(full_grid, u32(workgroups)));
}

}  // namespace

/** matmul_vec4 takes rows of whole vectors of 4 alone, in both operands. */
bool Model::is_in_vectors(const Product& product) {
  const uint64_t a = product.trans == Product::TN ? product.M : product.K;
  const uint64_t b = product.trans == Product::NT ? product.K : product.N;
  return a % 4 == 0 && b % 4 == 0;
}

template <typename K>
K Model::with_epilogue(K kernel, const Product& product) const {
  kernel.M = u32(product.M);
  kernel.N = u32(product.N);
  kernel.K = u32(product.K);
  kernel.step = one(fixed_.step);
  kernel.bias = product.bias;
  const bool has_slope = product.slope_of.tensor != kNone;
  kernel.residual = has_slope ? product.slope_of : product.residual;
  kernel.out = product.out;
  kernel.pre_gelu = product.pre_gelu;
  kernel.BIAS = product.bias.tensor != kNone;
  kernel.GELU = product.gelu ? gelu() : 0;
  kernel.KEEP_PRE_GELU = product.pre_gelu.tensor != kNone;
  kernel.SLOPE = has_slope ? gelu() : 0;
  kernel.RESIDUAL = product.residual.tensor != kNone;
  kernel.ACCUMULATE = product.accumulate;
  if (product.masked != kNone) {
    kernel.DROPOUT = 1;
    kernel.site = product.masked;
    kernel.threshold = dropout_threshold(config_.dropout);
    kernel.scale = dropout_scale(config_.dropout);
  }
  return kernel;
}

Choice Model::choice(const Product& product) const {
  const bool vectors = is_in_vectors(product);
  const uint64_t workgroups = groups(product.N, kLargeTile) * groups(product.M, kLargeTile);
  switch (variants_.matmul) {
    case Matmul::naive:
    case Matmul::tiled:
    case Matmul::blocked8:
    case Matmul::tiled_f16:
    case Matmul::f16_packed:
      return {variants_.matmul, 1};
    case Matmul::f16:
      return {vectors ? Matmul::f16 : Matmul::blocked4, 1};
    default:
      break;
  }
  // A tile of 64 rows would be almost empty: a new token's products.
  if (product.M <= kSmallTile) return {Matmul::tiled, 1};
  const bool falls_back = variants_.matmul == Matmul::vec4 && !vectors;
  return {falls_back ? Matmul::blocked4 : variants_.matmul,
          parts_of(workgroups, variants_.full_grid, product.K)};
}

void Model::matmul(const std::string& label, const Product& product) {
  const Choice chosen = builder_.chosen(label, choice(product));
  Range A = product.A, B = product.B;
  const auto run = [&](auto kernel, uint32_t tile) {
    kernel.A = A;
    kernel.B = B;
    kernel.TRANS = product.trans;
    builder_.run(label, kernel,
                 {u32(groups(product.N, tile)), u32(groups(product.M, tile)), u32(chosen.parts)});
  };
  const auto in_parts = [&](auto kernel) {
    if (chosen.parts == 1) return run(with_epilogue(kernel, product), kLargeTile);
    const Range partials = scratch("scratch.parts", {chosen.parts, product.M, product.N});
    kernel.M = u32(product.M);
    kernel.N = u32(product.N);
    kernel.K = u32(product.K);
    kernel.SPLIT = 1;
    kernel.step = one(fixed_.step);
    kernel.out = partials;
    run(kernel, kLargeTile);
    wgsl::matmul_split sum = with_epilogue(wgsl::matmul_split{}, product);
    sum.K = u32(chosen.parts);
    sum.partials = partials;
    builder_.run(label + " sum", sum, folded(groups(product.M * product.N, sum.workgroup)));
  };
  const auto packed = [&](const char* operand, Range numbers) {
    const uint64_t words = groups(numbers.count, 2);
    wgsl::pack_f16 pack{.n = u32(numbers.count)};
    pack.x = numbers;
    pack.packed = scratch(std::string("scratch.halves_") + operand, {words});
    builder_.run(label + " " + operand + " packed", pack, folded(groups(words, pack.workgroup)));
    return pack.packed;
  };
  switch (chosen.kernel) {
    case Matmul::naive:
      return run(with_epilogue(wgsl::matmul_naive{}, product), kSmallTile);
    case Matmul::tiled:
      return run(with_epilogue(wgsl::matmul_tiled{}, product), kSmallTile);
    case Matmul::blocked4:
      return in_parts(wgsl::matmul_blocked4{});
    case Matmul::vec4:
      return in_parts(wgsl::matmul_vec4{});
    case Matmul::subgroup:
      return in_parts(wgsl::matmul_subgroup{});
    case Matmul::f16:
      return in_parts(wgsl::matmul_f16{});
    case Matmul::blocked8:
      return run(with_epilogue(wgsl::matmul_blocked8{}, product), kHugeTile);
    case Matmul::tiled_f16:
      return run(with_epilogue(wgsl::matmul_tiled_f16{}, product), kSmallTile);
    case Matmul::f16_packed:  // with two passes more, which are part of its time
      A = packed("A", A);
      B = packed("B", B);
      return run(with_epilogue(wgsl::matmul_f16_packed{}, product), kSmallTile);
  }
}

}  // namespace tabgpt::gpu
