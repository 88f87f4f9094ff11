/**
 * @file One operation of the core as a GPU plan of its own: its inputs, and how right a result is. All
 * variants of a case share a handle, and so inputs and answers.
 */
import { ConfigHandle, TabgptError, type Core, type CoreConfig } from "../core/index.ts";
import type { DeviceLimits } from "../gpu/device.ts";
import { tensorBytes, type GpuPlan } from "../gpu/plan.ts";

export interface OpPlan extends GpuPlan {
  /** Tensors to upload, and those to check. */
  inputs: string[];
  results: string[];
  flops: number;
  bytes: number;
}

export class Op {
  readonly #core: Core;
  readonly #pointer: number;

  /** Throws TabgptError for a text that names no operation (c_api.h says which there are). */
  constructor(core: Core, text: string) {
    this.#core = core;
    this.#pointer = core.withArrays([text], (p) => core.abi.tabgpt_gpu_op_open(p!));
    if (this.#pointer === 0) core.fail(text);
  }

  /** `variants`: "matmul=vec4". Throws TabgptError where the device's limits do not hold it. */
  plan(variants: string, { maxStorageBufferBindingSize: binding, maxBufferSize: buffer }: DeviceLimits): OpPlan {
    const text = this.#core.withArrays([variants], (v) =>
      this.#core.text(this.#core.abi.tabgpt_gpu_op_plan(this.#pointer, v!, binding, buffer)),
    );
    return text === "" ? this.#core.fail(variants) : (JSON.parse(text) as OpPlan);
  }

  /** Values of an input, the same on every machine. */
  input(plan: OpPlan, name: string): Float32Array<ArrayBuffer> {
    const count = tensorBytes(plan.tensors[name]!) / 4;
    const pointer = this.#core.alloc(4 * count);
    try {
      const status = this.#core.withArrays([name], (n) => this.#core.abi.tabgpt_gpu_op_input(this.#pointer, n!, pointer));
      this.#core.check(status, `making the input ${name}`);
      return new Float32Array(this.#core.floats(pointer, count));
    } finally {
      this.#core.abi.tabgpt_free(pointer);
    }
  }

  /** Largest error of a result as a share of its bound; infinity where a value is not finite. */
  check(variants: string, name: string, values: Float32Array): number {
    const share = this.#core.withArrays([variants, name, values], (v, n, p) =>
      this.#core.abi.tabgpt_gpu_op_check(this.#pointer, v!, n!, p!),
    );
    if (Number.isNaN(share)) throw new TabgptError(this.#core.text(this.#core.abi.tabgpt_last_error()) || `checking ${name} failed`);
    return share;
  }

  close(): void {
    this.#core.abi.tabgpt_gpu_op_close(this.#pointer);
  }
}

/** Floating-point operations of one optimizer step's products. */
export function stepFlops(core: Core, config: CoreConfig): number {
  const handle = new ConfigHandle(core, config);
  try {
    return core.abi.tabgpt_step_flops(handle.pointer);
  } finally {
    handle.free();
  }
}
