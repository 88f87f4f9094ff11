#include "tabgpt/layout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "philox.hpp"
#include "tabgpt/streams.hpp"

namespace tabgpt {

uint32_t Layout::add(std::string name, uint64_t rows, uint64_t columns, double std, float fill) {
  Parameter parameter{std::move(name), {rows, columns}, std, fill, total_floats};
  count += parameter.count();
  total_floats += align_floats(parameter.count());
  parameters.push_back(std::move(parameter));
  return static_cast<uint32_t>(parameters.size() - 1);
}

Layout::Layout(const Config& config) {
  const uint64_t C = config.d_model, F = config.mlp();
  const double std = 0.02;
  // GPT-2, section 2.3: the residual stream sums 2 * n_layer projections.
  const double into_residual = std / std::sqrt(2.0 * static_cast<double>(config.n_layer));
  blocks.resize(config.n_layer);
  const auto name = [](uint64_t layer, const char* rest) {
    return "transformer.h." + std::to_string(layer) + "." + rest;
  };

  wte = add("transformer.wte.weight", config.vocab_size, C, std);
  wpe = add("transformer.wpe.weight", config.ctx, C, std);
  for (uint64_t i = 0; i < config.n_layer; ++i) {
    blocks[i].attn_w = add(name(i, "attn.c_attn.weight"), C, 3 * C, std);
    blocks[i].attn_proj_w = add(name(i, "attn.c_proj.weight"), C, C, into_residual);
    blocks[i].fc_w = add(name(i, "mlp.c_fc.weight"), C, F, std);
    blocks[i].mlp_proj_w = add(name(i, "mlp.c_proj.weight"), F, C, into_residual);
  }
  decayed_floats = total_floats;
  for (uint64_t i = 0; i < config.n_layer; ++i) {
    blocks[i].ln_1_w = add(name(i, "ln_1.weight"), C, 0, 0, 1);
    blocks[i].ln_1_b = add(name(i, "ln_1.bias"), C, 0, 0);
    blocks[i].attn_b = add(name(i, "attn.c_attn.bias"), 3 * C, 0, 0);
    blocks[i].attn_proj_b = add(name(i, "attn.c_proj.bias"), C, 0, 0);
    blocks[i].ln_2_w = add(name(i, "ln_2.weight"), C, 0, 0, 1);
    blocks[i].ln_2_b = add(name(i, "ln_2.bias"), C, 0, 0);
    blocks[i].fc_b = add(name(i, "mlp.c_fc.bias"), F, 0, 0);
    blocks[i].mlp_proj_b = add(name(i, "mlp.c_proj.bias"), C, 0, 0);
  }
  ln_f_w = add("transformer.ln_f.weight", C, 0, 0, 1);
  ln_f_b = add("transformer.ln_f.bias", C, 0, 0);
}

void Layout::initial_values(uint32_t number, uint32_t seed, uint64_t first, uint64_t count,
                            float* out) const {
  const Parameter& parameter = parameters[number];
  if (parameter.std == 0) {
    std::fill(out, out + count, parameter.fill);
  } else {
    philox::normals(out, static_cast<size_t>(count), parameter.std, seed, 0, stream_c3(Use::init, 0, number),
                    first / 4);
  }
}

}  // namespace tabgpt
