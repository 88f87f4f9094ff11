/** What an operation's results must be: float64 answers at sampled places, and bounds on float32's error. */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tabgpt::gpu {

/** Which operation, and how large. Names of sizes as elsewhere; a matmul has M, N, K, attention B, H, T, D.
 */
struct OpSizes {
  enum class Kind : uint32_t { matmul, attention_forward, attention_backward } kind{};
  uint32_t trans = 0;  ///< 0 NN, 1 NT, 2 TN
  uint64_t M = 1, N = 1, K = 1, B = 1, H = 1, T = 1, D = 1;

  uint64_t C() const { return H * D; }
};

/** A tensor that the host fills, or one that it reads back, by the plan's name. */
struct OpTensor {
  std::string name;
  uint64_t count;    ///< elements
  double scale = 1;  ///< standard deviation of an input's values
};

std::vector<OpTensor> op_inputs(const OpSizes& sizes);
std::vector<OpTensor> op_results(const OpSizes& sizes);

/** Normals times the scale; `number` is the input's place in op_inputs. */
void op_values(const OpTensor& input, uint32_t number, float* out);

class OpAnswers {
 public:
  explicit OpAnswers(const OpSizes& sizes) : sizes_(sizes) {}

  /**
   * Largest error of `got` as a share of its bound; infinity where an element is not finite.
   * rounding: relative error of an operand's storage beside float32's own, 0 for float32.
   */
  double worst(const OpTensor& result, const float* got, double rounding);

 private:
  /** Of one tensor, at some of its places. */
  struct Samples {
    std::vector<uint64_t> at;
    std::vector<double> value, bound;
    std::vector<double> magnitude;  ///< of the sum of products, by which an operand's rounding counts

    void add(uint64_t place, double answer, double error, double size) {
      at.push_back(place);
      value.push_back(answer);
      bound.push_back(error);
      magnitude.push_back(size);
    }
  };

  void matmul();
  void attention();

  const OpSizes sizes_;
  std::map<std::string, Samples, std::less<>> samples_;  ///< by result; made when first asked for
};

}  // namespace tabgpt::gpu
