/**
 * @file The C ABI of cpp/include/tabgpt/c_api.h as data: one signature an export.
 */
import { bindExport, type AddressBits, type Signature } from "./pointers.ts";

export const SIGNATURES = {
  tabgpt_version: "p:",
  tabgpt_isa: "p:",
  tabgpt_has_threads: "i:",
  tabgpt_last_error: "p:",
  tabgpt_alloc: "p:p",
  tabgpt_free: "v:p",
  tabgpt_heap_bytes: "d:",
  tabgpt_config_new: "p:",
  tabgpt_config_free: "v:p",
  tabgpt_config_field_count: "p:",
  tabgpt_config_field_name: "p:p",
  tabgpt_config_set: "i:ppd",
  tabgpt_config_set_choice: "i:ppp",
  tabgpt_config_check: "i:p",
  tabgpt_config_parameters: "d:p",
  tabgpt_memory: "d:ppppp",
  tabgpt_learning_rate: "d:pp",
  tabgpt_open: "p:ppp",
  tabgpt_close: "v:p",
  tabgpt_threads: "p:p",
  tabgpt_thread_tiles: "d:pp",
  tabgpt_init_weights: "i:p",
  tabgpt_set_tokens: "i:ppp",
  tabgpt_tensor_count: "p:p",
  tabgpt_tensor_name: "p:pp",
  tabgpt_tensor_data: "p:pp",
  tabgpt_tensor_ndim: "p:pp",
  tabgpt_tensor_dim: "p:ppp",
  tabgpt_step_number: "p:p",
  tabgpt_set_step_number: "i:pp",
  tabgpt_step: "i:p",
  tabgpt_metric: "d:pp",
  tabgpt_loss: "i:pppppipp",
  tabgpt_loss_and_grads: "i:pppppipp",
  tabgpt_logits: "i:ppppp",
  tabgpt_evaluate_begin: "i:ppp",
  tabgpt_evaluate_next: "i:p",
  tabgpt_generate_begin: "i:pppdpdu",
  tabgpt_generate_next: "i:p",
  tabgpt_gpu_variants: "p:",
  tabgpt_gpu_open: "p:ppddp",
  tabgpt_gpu_close: "v:p",
  tabgpt_gpu_plan: "p:p",
  tabgpt_gpu_programs: "p:ppp",
  tabgpt_gpu_memory: "d:pp",
  tabgpt_gpu_inputs: "p:p",
  tabgpt_gpu_initial_values: "i:ppp",
  tabgpt_gpu_weights_changed: "i:p",
  tabgpt_gpu_set_tokens: "i:ppp",
  tabgpt_gpu_step_number: "p:p",
  tabgpt_gpu_set_step_number: "i:pp",
  tabgpt_gpu_fill_step: "i:pp",
  tabgpt_gpu_end_step: "i:p",
  tabgpt_gpu_read_stats: "i:ppp",
  tabgpt_gpu_metric: "d:pp",
  tabgpt_gpu_fill_batch: "i:pppppipp",
  tabgpt_gpu_mean_loss: "d:pp",
  tabgpt_gpu_evaluate_begin: "i:ppp",
  tabgpt_gpu_evaluate_fill: "i:p",
  tabgpt_gpu_evaluate_next: "i:pp",
  tabgpt_gpu_generate_begin: "i:pppdpdu",
  tabgpt_gpu_generate_fill: "i:p",
  tabgpt_gpu_generate_next: "i:pp",
  tabgpt_gpu_op_open: "p:p",
  tabgpt_gpu_op_close: "v:p",
  tabgpt_gpu_op_plan: "p:ppdd",
  tabgpt_gpu_op_input: "i:ppp",
  tabgpt_gpu_op_check: "d:pppp",
  tabgpt_step_flops: "d:p",
  tabgpt_op: "i:pppppp",
} as const satisfies Record<string, Signature>;

export type ExportName = keyof typeof SIGNATURES;
export type Abi = Record<ExportName, (...values: number[]) => number>;

/** Binds every export of a module that Emscripten instantiated (`_name`); a missing one is an error. */
export function bindAbi(module: Record<string, unknown>, bits: AddressBits): Abi {
  const entries = Object.entries(SIGNATURES).map(([name, signature]) => {
    const raw = module[`_${name}`];
    if (typeof raw !== "function") throw new Error(`the WASM build does not export ${name}; rebuild it`);
    return [name, bindExport(raw as Parameters<typeof bindExport>[0], signature, bits)];
  });
  return Object.fromEntries(entries) as Abi;
}
