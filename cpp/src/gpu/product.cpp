/** Products: which kernel computes one. */
#include "gpu/model.hpp"

namespace tabgpt::gpu {

void Model::matmul(const std::string& label, const Product& product) {
  const auto emit = [&](auto kernel) {
    kernel.M = u32(product.M);
    kernel.N = u32(product.N);
    kernel.K = u32(product.K);
    kernel.A = product.A;
    kernel.B = product.B;
    kernel.bias = product.bias;
    kernel.residual = product.residual;
    kernel.out = product.out;
    kernel.pre_gelu = product.pre_gelu;
    kernel.TRANS = product.trans;
    kernel.BIAS = product.bias.tensor != kNone;
    kernel.GELU = product.gelu ? gelu() : 0;
    kernel.KEEP_PRE_GELU = product.pre_gelu.tensor != kNone;
    kernel.RESIDUAL = product.residual.tensor != kNone;
    kernel.ACCUMULATE = product.accumulate;
    builder_.run(label, kernel, {u32(groups(product.N, 16)), u32(groups(product.M, 16)), 1});
  };
  if (variants_.matmul == Matmul::naive) {
    emit(wgsl::matmul_naive{});
  } else {
    emit(wgsl::matmul_tiled{});
  }
}

}  // namespace tabgpt::gpu
