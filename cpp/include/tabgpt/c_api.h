/**
 * The C ABI of the tabgpt core: what Python's and the browser's hosts may call.
 *
 * Handles are opaque; arguments are pointers, size_t, double and text, so the
 * same header serves wasm32, wasm64 and native builds. Byte counts that may
 * pass 4 GiB are doubles (exact to 2^53), because a 32-bit planner must be able
 * to say that a model does not fit it.
 *
 * Nothing aborts. A function that can fail returns TABGPT_ERROR (or NULL, or
 * NaN where it says so) and leaves a sentence in tabgpt_last_error() that names
 * the value, the limit and the way out. One session is used by one host thread
 * at a time.
 */
#ifndef TABGPT_C_API_H
#define TABGPT_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TABGPT_OK = 0, TABGPT_ERROR = -1 };

typedef struct tabgpt_config tabgpt_config;
typedef struct tabgpt_session tabgpt_session;

const char* tabgpt_version(void);
/** The kernels in use: "avx2", "neon", "generic", "wasm-scalar", "wasm-simd", "wasm-relaxed". */
const char* tabgpt_isa(void);
/** 1 where the build has threads, 0 where a session always runs on one. */
int tabgpt_has_threads(void);
/** The calling thread's last error; "" when there was none. */
const char* tabgpt_last_error(void);
/** Memory for a host's arguments. NULL when there is none left. */
void* tabgpt_alloc(size_t bytes);
void tabgpt_free(void* pointer);
/** Bytes that the process has allocated and not freed: leaks show here. NaN where its C library does not say.
 */
double tabgpt_heap_bytes(void);

/* -- config: every field of presets.json's groups "model" and "train", and vocab_size -- */

tabgpt_config* tabgpt_config_new(void);
void tabgpt_config_free(tabgpt_config* config);
size_t tabgpt_config_field_count(void);
const char* tabgpt_config_field_name(size_t index);
/** Unknown keys, NaN, fractions in whole numbers and values out of range are errors. */
int tabgpt_config_set(tabgpt_config* config, const char* key, double value);
int tabgpt_config_set_choice(tabgpt_config* config, const char* key, const char* value);
/** The rules between fields (n_head divides d_model, ...), and that every field was set. */
int tabgpt_config_check(const tabgpt_config* config);
/** Number of parameters without padding; NaN on error. */
double tabgpt_config_parameters(const tabgpt_config* config);
/**
 * Bytes a session of this mode ("infer", "train", "probe") will hold, before anything is allocated.
 * role: "parameters", "gradients", "adam_m", "adam_v", "activations", "kv_cache",
 * "workspace", "tokens", "total". NaN on error.
 */
double tabgpt_memory(const tabgpt_config* config, const char* mode, size_t n_threads, size_t n_tokens,
                     const char* role);
/** Learning rate of a 0-based step; NaN on error. */
double tabgpt_learning_rate(const tabgpt_config* config, size_t step);

/* -- session -- */

/**
 * Allocates everything that the plan needs, zeroed; NULL when it does not fit.
 * "infer" holds parameters only; "train" adds gradients and AdamW's moments;
 * "probe" is "train" with every activation and activation gradient kept to be read.
 */
tabgpt_session* tabgpt_open(const tabgpt_config* config, const char* mode, size_t n_threads);
void tabgpt_close(tabgpt_session* session);
size_t tabgpt_threads(const tabgpt_session* session);
/** Tiles of work that a thread has run; shows that every thread takes part. */
double tabgpt_thread_tiles(const tabgpt_session* session, size_t thread);
/** N(0, 0.02) by Philox from the config's seed; step number 0; moments zero. */
int tabgpt_init_weights(tabgpt_session* session);
/** Copies the corpus (ids below vocab_size) and splits it, validation last. */
int tabgpt_set_tokens(tabgpt_session* session, const uint32_t* tokens, size_t count);

/* -- named tensors (see layout.hpp, plan.hpp for the names) -- */

size_t tabgpt_tensor_count(const tabgpt_session* session);
const char* tabgpt_tensor_name(const tabgpt_session* session, size_t index);
/** Row-major float32, contiguous; NULL for an unknown name. */
float* tabgpt_tensor_data(tabgpt_session* session, const char* name);
size_t tabgpt_tensor_ndim(const tabgpt_session* session, const char* name);
size_t tabgpt_tensor_dim(const tabgpt_session* session, const char* name, size_t axis);

/* -- training -- */

size_t tabgpt_step_number(const tabgpt_session* session);
int tabgpt_set_step_number(tabgpt_session* session, size_t step);
/**
 * One optimizer step on the training split. A loss or gradient norm that is not
 * finite changes no parameter and no moment; the metric "finite" is then 0.
 */
int tabgpt_step(tabgpt_session* session);
/** Of the last step: "loss", "lr", "grad_norm", "finite", "tokens"; of the last loss or evaluation: "loss".
 */
double tabgpt_metric(const tabgpt_session* session, const char* name);

/** tokens, targets: [batch, length] ids. Leaves "loss"; train != 0 applies dropout of (step, micro). */
int tabgpt_loss(tabgpt_session* session, const uint32_t* tokens, const uint32_t* targets, size_t batch,
                size_t length, int train, size_t step, size_t micro);
/** The same, and gradients into the tensors "grad:*" (zeroed first). Needs "train" or "probe". */
int tabgpt_loss_and_grads(tabgpt_session* session, const uint32_t* tokens, const uint32_t* targets,
                          size_t batch, size_t length, int train, size_t step, size_t micro);
/** logits: room for [batch, length, vocab_size]. Any batch; length <= ctx. */
int tabgpt_logits(tabgpt_session* session, const uint32_t* tokens, size_t batch, size_t length,
                  float* logits);

/** split: "train" or "val". n_batches 0 is the whole split. */
int tabgpt_evaluate_begin(tabgpt_session* session, const char* split, size_t n_batches);
/** One batch. 1: more to do; 0: done, metric "loss" holds the mean; TABGPT_ERROR. */
int tabgpt_evaluate_next(tabgpt_session* session);

/* -- sampling -- */

int tabgpt_generate_begin(tabgpt_session* session, const uint32_t* prompt, size_t count, double temperature,
                          size_t top_k, double top_p, uint32_t seed);
/** The next token's id, or TABGPT_ERROR. */
int32_t tabgpt_generate_next(tabgpt_session* session);

/* -- training on a GPU: the core plans and draws, an executor in the host runs (cpp/src/gpu/plan.hpp) -- */

typedef struct tabgpt_gpu tabgpt_gpu;

/**
 * JSON: [{"family", "name", "feature", "training", "default"}], the kernels there are: feature is what of
 * WebGPU one needs, "" for nothing; one that is not for training is for benches alone.
 */
const char* tabgpt_gpu_variants(void);

/**
 * Plans, and allocates what a pass uploads; NULL when a limit does not hold, with the largest setting that
 * fits. Limits are the device's maxStorageBufferBindingSize and maxBufferSize. variants: the kernels to use
 * and what the device is, "vendor=nvidia feature=shader-f16 matmul=naive attention=plain" with WebGPU's
 * names; families left out, or NULL, are the core's choice.
 */
tabgpt_gpu* tabgpt_gpu_open(const tabgpt_config* config, const char* mode, double max_binding_bytes,
                            double max_buffer_bytes, const char* variants);
void tabgpt_gpu_close(tabgpt_gpu* gpu);
/** JSON: buffers, named tensors, pipelines, words, programs. Valid until the handle is closed. */
const char* tabgpt_gpu_plan(const tabgpt_gpu* gpu);
/**
 * JSON: tensors, words and the programs forward, losses, logits.* and backward for batches of another shape;
 * the plan's own are for [batch_size, ctx]. Valid until the next call. NULL where the plan has no room.
 */
const char* tabgpt_gpu_programs(tabgpt_gpu* gpu, size_t batch, size_t length);
/** Bytes of the plan's buffers; roles as tabgpt_memory's. NaN on error. */
double tabgpt_gpu_memory(const tabgpt_gpu* gpu, const char* role);
/** What to write to the buffer "inputs", as many bytes as it has, after one of the fill functions. */
const void* tabgpt_gpu_inputs(const tabgpt_gpu* gpu);

/** A parameter's starting values, to `values`. The host uploads them and clears the moments. */
int tabgpt_gpu_initial_values(const tabgpt_gpu* gpu, const char* parameter, float* values);
/** The host wrote to a parameter: a sampling cache made before is of no use. */
int tabgpt_gpu_weights_changed(tabgpt_gpu* gpu);
int tabgpt_gpu_set_tokens(tabgpt_gpu* gpu, const uint32_t* tokens, size_t count);
size_t tabgpt_gpu_step_number(const tabgpt_gpu* gpu);
int tabgpt_gpu_set_step_number(tabgpt_gpu* gpu, size_t step);

/**
 * A step: run "begin_step"; for each micro-batch from 0 fill, upload, run "forward" and "backward"; run
 * "update"; end_step. Then, at any time, read the tensor "stats" of that 0-based step.
 */
int tabgpt_gpu_fill_step(tabgpt_gpu* gpu, size_t micro);
int tabgpt_gpu_end_step(tabgpt_gpu* gpu);
int tabgpt_gpu_read_stats(tabgpt_gpu* gpu, size_t step, const float* stats);
/** As tabgpt_metric. */
double tabgpt_gpu_metric(const tabgpt_gpu* gpu, const char* name);

/**
 * A batch of the host's, for that shape's programs: "forward" and "losses", or "begin_step", "forward" and
 * "backward"; then losses is the tensor of that name, and the mean is NaN where one is not finite.
 */
int tabgpt_gpu_fill_batch(tabgpt_gpu* gpu, const uint32_t* tokens, const uint32_t* targets, size_t batch,
                          size_t length, int train, size_t step, size_t micro);
double tabgpt_gpu_mean_loss(const tabgpt_gpu* gpu, const float* losses);

/** As tabgpt_evaluate_begin; for each batch fill, upload, run "forward" and "losses", and hand "losses" back.
 */
int tabgpt_gpu_evaluate_begin(tabgpt_gpu* gpu, const char* split, size_t n_batches);
int tabgpt_gpu_evaluate_fill(tabgpt_gpu* gpu);
/** 1: more to do; 0: done, metric "loss" holds the mean; TABGPT_ERROR. */
int tabgpt_gpu_evaluate_next(tabgpt_gpu* gpu, const float* losses);

/** As tabgpt_generate_begin; for each token fill, upload, run, and hand the tensor "decode.logits" back. */
int tabgpt_gpu_generate_begin(tabgpt_gpu* gpu, const uint32_t* prompt, size_t count, double temperature,
                              size_t top_k, double top_p, uint32_t seed);
/** 1: run "prefill" and "decode"; 0: run "decode"; TABGPT_ERROR. */
int tabgpt_gpu_generate_fill(tabgpt_gpu* gpu);
/** The next token's id, or TABGPT_ERROR. */
int32_t tabgpt_gpu_generate_next(tabgpt_gpu* gpu, const float* logits);

/* -- single operations on a GPU, for benches: the core plans, fills and judges, a host runs and times -- */

typedef struct tabgpt_gpu_op tabgpt_gpu_op;

/**
 * "matmul NN M K N" (or NT, TN), "attention forward B H T D" (or backward). One handle serves every variant:
 * the inputs and the float64 answers are the same.
 */
tabgpt_gpu_op* tabgpt_gpu_op_open(const char* operation);
void tabgpt_gpu_op_close(tabgpt_gpu_op* op);
/**
 * JSON as tabgpt_gpu_plan's, with the lists "inputs" and "results" of tensor names, "flops", "bytes", and the
 * programs "prepare", to run once, and "run". variants as tabgpt_gpu_open's; those for benches only, too.
 * The buffer "inputs" is all zeros. Valid until the next call.
 */
const char* tabgpt_gpu_op_plan(tabgpt_gpu_op* op, const char* variants, double max_binding_bytes,
                               double max_buffer_bytes);
/** Values for the tensor of that name, one of "inputs". */
int tabgpt_gpu_op_input(const tabgpt_gpu_op* op, const char* name, float* values);
/**
 * What "run" left in one of "results": its largest error as a share of its bound, at sampled places. At most
 * 1 is right; infinity where an element is not finite; NaN on error.
 */
double tabgpt_gpu_op_check(tabgpt_gpu_op* op, const char* variants, const char* name, const float* got);
/** Floating-point operations of one optimizer step's products: matmuls and attention. NaN on error. */
double tabgpt_step_flops(const tabgpt_config* config);

/* -- single kernels, for parity and benches -- */

/** Runs one kernel by name on the caller's buffers; ops.cpp lists names, parameters and tensors. */
int tabgpt_op(const char* name, const double* params, size_t n_params, float* const* tensors,
              size_t n_tensors, size_t n_threads);

#ifdef __cplusplus
}
#endif
#endif
