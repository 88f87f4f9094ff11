/** Collects a plan's tensors, pipelines, words and commands while the model's passes are written down. */
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/program.hpp"
#include "gpu/variants.hpp"
#include "tabgpt/shaders.hpp"

namespace tabgpt::gpu {

inline constexpr uint32_t kMaxGroups = 65535;  ///< workgroups in a dimension; WebGPU's default limit

/** Groups in x up to the limit, the rest in y; the kernel checks its bounds. */
Grid folded(uint64_t groups);

/** Of a product: the kernel, and how many parts K is summed in. */
struct Choice {
  Matmul kernel;
  uint64_t parts;
};

class Builder {
 public:
  /** The tensor of this name, made on first use; from here on it has this shape, and room for it. */
  uint32_t tensor(std::string name, Role role, std::vector<uint64_t> shape);
  uint32_t find(const std::string& name) const;
  Range all(uint32_t tensor) const { return {tensor, 0, tensors[tensor].elements()}; }

  /** Makes what is bound where a kernel's tensor is left out; before the first dispatch. */
  void add_dummies();
  /** Forgets programs and words; tensors, pipelines and choices stay. */
  void start_over();
  /** What follows is this program's. continues: see Program. */
  void begin(std::string program, bool continues = false) {
    programs.push_back({std::move(program), continues, {}});
  }

  /** One dispatch of a generated kernel struct; bindings that it leaves out are bound to dummies. */
  template <typename K>
  void run(std::string label, const K& kernel, Grid grid) {
    dispatch(std::move(label), K::kernel, kernel.constants(), kernel.words(), kernel.bindings(), grid);
  }
  void clear(Range range) { command({Command::Kind::clear, "", 0, 0, {range}, {}}); }
  void copy(Range from, Range to) { command({Command::Kind::copy, "", 0, 0, {from, to}, {}}); }

  /**
   * What was chosen for this label in the present program, or `now` where it comes up for the first time. A
   * plan is first written for the whole batch; smaller ones do as it does, with its pipelines and its room.
   */
  const Choice& chosen(const std::string& label, const Choice& now) {
    return choices_.try_emplace(programs.back().name + ' ' + label, now).first->second;
  }

  std::vector<Tensor> tensors;
  std::vector<Pipeline> pipelines;
  std::vector<uint32_t> words;  ///< every dispatch's problem sizes, equal ones once, each on 256 bytes
  std::vector<Program> programs;
  std::string over;  ///< label of a dispatch whose grid passes kMaxGroups; "" where there is none

 private:
  uint32_t dummy_read_ = kNone;
  std::vector<uint32_t>
      dummy_writes_;  ///< as many as a dispatch leaves out at most, each in a buffer of its own

  void dispatch(std::string label, Kernel kernel, std::vector<uint32_t> constants,
                const std::vector<uint32_t>& words, std::vector<Range> bindings, Grid grid);
  void command(Command command) { programs.back().commands.push_back(std::move(command)); }
  uint32_t place_words(const std::vector<uint32_t>& values);

  std::unordered_map<std::string, uint32_t> by_name_;
  std::map<std::vector<uint32_t>, uint32_t> placed_words_;
  std::map<std::string, Choice> choices_;
};

}  // namespace tabgpt::gpu
