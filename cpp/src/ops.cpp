/**
 * The kernels by name. The table at the end of this file is the list: each op's parameters and tensors in
 * order.
 *
 * Sizes are whole numbers of at least 1. "dropout" stands for the five numbers seed, c2, c3, threshold, scale
 * of kernels.hpp's Dropout (threshold 0: none). A tensor marked ? may be NULL. u32 tensors are passed by
 * their bits. To add an op: write run_<name>, reading parameters in order, and add its line.
 */
#include "ops.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "kernels/kernels.hpp"
#include "philox.hpp"
#include "threads.hpp"

namespace tabgpt {

namespace {

using kernels::AdamW;

/** Pool and scratch, kept from call to call. */
struct Machine {
  std::unique_ptr<Pool> pool;
  size_t n_threads = 0;
  std::unique_ptr<unsigned char[]> bytes;
  size_t capacity = 0;

  bool use_threads(size_t wanted) {
    if (pool != nullptr && wanted == n_threads) return true;
    pool.reset();
    pool.reset(new (std::nothrow) Pool(wanted));
    n_threads = wanted;
    if (pool != nullptr && pool->size() == wanted) return true;
    pool.reset();
    return false;
  }

  /** 64-byte aligned scratch; nullptr when there is no memory. */
  void* scratch(uint64_t size) {
    if (bytes == nullptr || size > capacity) {
      bytes.reset();
      capacity = static_cast<size_t>(size);
      bytes.reset(size > SIZE_MAX - 64 ? nullptr : new (std::nothrow) unsigned char[capacity + 64]);
    }
    if (bytes == nullptr) return nullptr;
    const uintptr_t address = reinterpret_cast<uintptr_t>(bytes.get());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
};

/** One call: hands out its parameters and tensors in order, and remembers the first thing that is wrong with
 * them. */
struct Call {
  const double* params;
  float* const* tensors;
  Machine& machine;
  std::string error;
  size_t next_param = 0, next_tensor = 0;

  Pool& pool() { return *machine.pool; }
  double number() { return params[next_param++]; }
  size_t whole(double least) {
    const double x = number();
    if (x >= least && x <= 0x1p53 && std::floor(x) == x && x <= static_cast<double>(SIZE_MAX))
      return static_cast<size_t>(x);
    if (error.empty()) {
      error = "parameter " + std::to_string(next_param - 1) + " is " + std::to_string(x) +
              "; it must be a whole number of at least " + std::to_string(static_cast<int>(least));
    }
    return 1;
  }
  size_t size() { return whole(1); }
  template <class Enum>
  Enum choice(size_t count) {
    const size_t x = whole(0);
    if (x >= count && error.empty()) {
      error = "parameter " + std::to_string(next_param - 1) + " is " + std::to_string(x) +
              "; choices are 0 to " + std::to_string(count - 1);
    }
    return static_cast<Enum>(x < count ? x : 0);
  }
  Dropout dropout() {
    Dropout d;
    d.seed = static_cast<uint32_t>(whole(0));
    d.c2 = static_cast<uint32_t>(whole(0));
    d.c3 = static_cast<uint32_t>(whole(0));
    d.threshold = static_cast<uint32_t>(whole(0));
    d.scale = static_cast<float>(number());
    return d;
  }
  float* maybe() { return tensors[next_tensor++]; }
  float* tensor() {
    float* const t = maybe();
    if (t == nullptr && error.empty()) error = "tensor " + std::to_string(next_tensor - 1) + " is NULL";
    return t;
  }
  uint32_t* ids() { return reinterpret_cast<uint32_t*>(tensor()); }
  /** Scratch for these sizes; and, because it is asked for last, the place where a bad argument stops the
   * call. */
  void* workspace(size_t m, size_t n, size_t k, size_t T = 1, size_t head_dim = 1) {
    if (!error.empty()) return nullptr;
    const uint64_t bytes = kernels::workspace_bytes(pool().size(), m, n, k, T, head_dim);
    void* const memory = machine.scratch(bytes);
    if (memory == nullptr) error = "no memory for " + std::to_string(bytes) + " bytes of scratch";
    return memory;
  }
  bool good() { return error.empty(); }
};

void run_matmul(Call& c) {
  const Trans trans = c.choice<Trans>(3);
  const size_t M = c.size(), N = c.size(), K = c.size();
  Epilogue e;
  e.gelu = c.choice<Gelu>(3);
  e.accumulate = c.choice<size_t>(2) != 0;
  const Dropout dropout = c.dropout();
  if (dropout.threshold != 0) e.dropout = &dropout;
  const float *const A = c.tensor(), *const B = c.tensor();
  float* const out = c.tensor();
  e.bias = c.maybe();
  e.pre_gelu = c.maybe();
  e.residual = c.maybe();
  if (void* const w = c.workspace(M, N, K)) kernels::matmul(c.pool(), w, trans, M, N, K, A, B, out, e);
}

void run_bias_backward(Call& c) {
  const size_t M = c.size(), N = c.size();
  float* const db = c.tensor();
  const float* const dy = c.tensor();
  if (void* const w = c.workspace(M, N, 1)) kernels::bias_backward(c.pool(), w, db, dy, M, N);
}

void run_layernorm_forward(Call& c) {
  const size_t R = c.size(), C = c.size();
  float *const out = c.tensor(), *const mean = c.tensor(), *const rstd = c.tensor();
  const float *const x = c.tensor(), *const weight = c.tensor(), *const bias = c.tensor();
  if (c.good()) kernels::layernorm_forward(c.pool(), out, mean, rstd, x, weight, bias, R, C);
}

void run_layernorm_backward(Call& c) {
  const size_t R = c.size(), C = c.size();
  float *const dx = c.tensor(), *const dweight = c.tensor(), *const dbias = c.tensor();
  const float *const dy = c.tensor(), *const x = c.tensor(), *const weight = c.tensor();
  const float *const mean = c.tensor(), *const rstd = c.tensor();
  if (void* const w = c.workspace(R, C, 1))
    kernels::layernorm_backward(c.pool(), w, dx, dweight, dbias, dy, x, weight, mean, rstd, R, C);
}

void run_gelu_forward(Call& c) {
  const size_t n = c.size();
  const Gelu kind = c.choice<Gelu>(3);
  float* const out = c.tensor();
  const float* const x = c.tensor();
  if (c.good()) kernels::gelu_forward(c.pool(), out, x, n, kind);
}

void run_gelu_backward(Call& c) {
  const size_t n = c.size();
  const Gelu kind = c.choice<Gelu>(3);
  float* const dx = c.tensor();
  const float *const dout = c.tensor(), *const x = c.tensor();
  if (c.good()) kernels::gelu_backward(c.pool(), dx, dout, x, n, kind);
}

void run_dropout_apply(Call& c) {
  const size_t n = c.size();
  const Dropout dropout = c.dropout();
  float* const y = c.tensor();
  const float* const x = c.tensor();
  if (c.good()) kernels::dropout_apply(c.pool(), y, x, n, dropout);
}

void run_attention_forward(Call& c) {
  const size_t B = c.size(), T = c.size(), H = c.size(), D = c.size();
  const Dropout dropout = c.dropout();
  float *const out = c.tensor(), *const lse = c.tensor();
  const float* const qkv = c.tensor();
  if (void* const w = c.workspace(1, 1, 1, T, D))
    kernels::attention_forward(c.pool(), w, out, lse, qkv, B, T, H, D, dropout);
}

void run_attention_backward(Call& c) {
  const size_t B = c.size(), T = c.size(), H = c.size(), D = c.size();
  const Dropout dropout = c.dropout();
  float* const dqkv = c.tensor();
  const float *const dout = c.tensor(), *const out = c.tensor(), *const lse = c.tensor(),
                     *const qkv = c.tensor();
  if (void* const w = c.workspace(1, 1, 1, T, D))
    kernels::attention_backward(c.pool(), w, dqkv, dout, out, lse, qkv, B, T, H, D, dropout);
}

void run_attention_decode(Call& c) {
  const size_t n = c.size(), ctx = c.size(), H = c.size(), D = c.size();
  float* const out = c.tensor();
  const float *const q = c.tensor(), *const k_cache = c.tensor(), *const v_cache = c.tensor();
  if (n > ctx && c.good()) c.error = "n is " + std::to_string(n) + ", more than ctx " + std::to_string(ctx);
  if (void* const w = c.workspace(1, 1, 1, ctx, D))
    kernels::attention_decode(c.pool(), w, out, q, k_cache, v_cache, n, ctx, H, D);
}

void run_embedding_forward(Call& c) {
  const size_t B = c.size(), T = c.size(), C = c.size(), position0 = c.whole(0);
  const Dropout dropout = c.dropout();
  float* const out = c.tensor();
  const uint32_t* const tokens = c.ids();
  const float *const wte = c.tensor(), *const wpe = c.tensor();
  if (c.good()) kernels::embedding_forward(c.pool(), out, tokens, wte, wpe, B, T, C, position0, dropout);
}

void run_embedding_backward(Call& c) {
  const size_t B = c.size(), T = c.size(), C = c.size();
  float *const dwte = c.tensor(), *const dwpe = c.tensor();
  const float* const dx = c.tensor();
  const uint32_t* const tokens = c.ids();
  if (void* const w = c.workspace(1, C, 1))
    kernels::embedding_backward(c.pool(), w, dwte, dwpe, dx, tokens, B, T, C);
}

void run_cross_entropy_forward(Call& c) {
  const size_t R = c.size(), V = c.size();
  float* const losses = c.tensor();
  const float* const logits = c.tensor();
  const uint32_t* const targets = c.ids();
  if (c.good()) kernels::cross_entropy_forward(c.pool(), losses, logits, targets, R, V);
}

void run_cross_entropy_backward(Call& c) {
  const size_t R = c.size(), V = c.size();
  const float scale = static_cast<float>(c.number());
  float* const logits = c.tensor();
  const uint32_t* const targets = c.ids();
  if (c.good()) kernels::cross_entropy_backward(c.pool(), logits, targets, R, V, scale);
}

void run_sum_of_squares(Call& c) {
  const size_t n = c.size();
  float* const result = c.tensor();
  const float* const x = c.tensor();
  if (void* const w = c.workspace(1, 1, 1)) {
    const double total = kernels::sum_of_squares(c.pool(), w, x, n);
    std::memcpy(result, &total, sizeof total);
  }
}

void run_adamw(Call& c) {
  const size_t n = c.size();
  AdamW a;
  for (double* const field : {&a.lr, &a.beta1, &a.beta2, &a.eps, &a.weight_decay, &a.bias_correction1,
                              &a.bias_correction2, &a.grad_scale})
    *field = c.number();
  float *const p = c.tensor(), *const m = c.tensor(), *const v = c.tensor();
  const float* const g = c.tensor();
  if (c.good()) kernels::adamw(c.pool(), p, m, v, g, n, a);
}

void run_philox(Call& c) {
  uint32_t x[6];
  for (uint32_t& word : x) word = static_cast<uint32_t>(c.whole(0));
  uint32_t* const out = c.ids();
  if (!c.good()) return;
  const philox::Block block = philox::block(x[0], x[1], x[2], x[3], x[4], x[5]);
  std::memcpy(out, block.word, sizeof block.word);
}

void run_normals(Call& c) {
  const size_t n = c.size();
  const double std = c.number();
  const uint32_t seed = static_cast<uint32_t>(c.whole(0)), c2 = static_cast<uint32_t>(c.whole(0));
  const uint32_t c3 = static_cast<uint32_t>(c.whole(0));
  float* const out = c.tensor();
  if (c.good()) philox::normals(out, n, std, seed, c2, c3);
}

struct Op {
  const char* name;
  size_t n_params, n_tensors;
  void (*run)(Call&);
  const char *params, *tensors;
};

constexpr Op ops[] = {
    {"matmul", 11, 6, run_matmul,
     "trans (0 NN, 1 NT, 2 TN), M, N, K, gelu (0 none, 1 tanh, 2 erf), accumulate, dropout",
     "A, B, out, bias?, pre_gelu?, residual?"},
    {"bias_backward", 2, 2, run_bias_backward, "M, N", "db, dy"},
    {"layernorm_forward", 2, 6, run_layernorm_forward, "R, C", "out, mean, rstd, x, weight, bias"},
    {"layernorm_backward", 2, 8, run_layernorm_backward, "R, C",
     "dx, dweight, dbias, dy, x, weight, mean, rstd"},
    {"gelu_forward", 2, 2, run_gelu_forward, "n, gelu (1 tanh, 2 erf)", "out, x"},
    {"gelu_backward", 2, 3, run_gelu_backward, "n, gelu (1 tanh, 2 erf)", "dx, dout, x"},
    {"dropout_apply", 6, 2, run_dropout_apply, "n, dropout", "y, x"},
    {"attention_forward", 9, 3, run_attention_forward, "B, T, H, D, dropout", "out, lse, qkv"},
    {"attention_backward", 9, 5, run_attention_backward, "B, T, H, D, dropout", "dqkv, dout, out, lse, qkv"},
    {"attention_decode", 4, 4, run_attention_decode, "n, ctx, H, D", "out, q, k_cache, v_cache"},
    {"embedding_forward", 9, 4, run_embedding_forward, "B, T, C, position0, dropout",
     "out, tokens (u32), wte, wpe"},
    {"embedding_backward", 3, 4, run_embedding_backward, "B, T, C", "dwte, dwpe, dx, tokens (u32)"},
    {"cross_entropy_forward", 2, 3, run_cross_entropy_forward, "R, V", "losses, logits, targets (u32)"},
    {"cross_entropy_backward", 3, 2, run_cross_entropy_backward, "R, V, scale", "logits, targets (u32)"},
    {"sum_of_squares", 1, 2, run_sum_of_squares, "n", "result (one float64), x"},
    {"adamw", 9, 4, run_adamw,
     "n, lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, grad_scale", "p, m, v, g"},
    {"philox", 6, 1, run_philox, "c0, c1, c2, c3, k0, k1", "out (4 u32)"},
    {"normals", 5, 1, run_normals, "n, std, seed, c2, c3", "out"},
};

bool wrong_count(const Op& op, const char* what, size_t given, size_t wanted, const char* list,
                 std::string& error) {
  if (given == wanted) return false;
  error = std::string(op.name) + " takes " + std::to_string(wanted) + " " + what + " (" + list + "), not " +
          std::to_string(given);
  return true;
}

}  // namespace

bool run_op(const char* name, const double* params, size_t n_params, float* const* tensors, size_t n_tensors,
            size_t n_threads, std::string& error) {
  static Machine machine;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const Op* op = nullptr;
  for (const Op& candidate : ops)
    if (name != nullptr && std::strcmp(candidate.name, name) == 0) op = &candidate;
  if (op == nullptr) {
    error = std::string("no op is called '") + (name == nullptr ? "" : name) + "'; there are";
    for (const Op& known : ops) error += std::string(&known == ops ? " " : ", ") + known.name;
    return false;
  }
  if (wrong_count(*op, "parameters", n_params, op->n_params, op->params, error)) return false;
  if (wrong_count(*op, "tensors", n_tensors, op->n_tensors, op->tensors, error)) return false;
  if (n_threads < 1 || n_threads > Pool::max_threads || !machine.use_threads(n_threads)) {
    error = "cannot run on " + std::to_string(n_threads) + " threads; ask for 1 to " +
            std::to_string(Pool::max_threads) + ", no more than this build and host can start";
    return false;
  }
  Call call{params, tensors, machine, {}};
  op->run(call);
  if (call.good()) return true;
  error = std::string(op->name) + ": " + call.error + " (parameters: " + op->params +
          "; tensors: " + op->tensors + ")";
  return false;
}

}  // namespace tabgpt
