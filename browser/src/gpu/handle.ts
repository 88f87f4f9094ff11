/**
 * @file The core's half of training on a GPU: it plans, draws batches, keeps the step number and chooses
 * tokens; typed methods that mirror the C ABI's tabgpt_gpu_*, one each.
 */
import {
  ConfigHandle,
  MEMORY_ROLES,
  TabgptError,
  type Core,
  type CoreConfig,
  type MemoryPlan,
  type MemoryRole,
  type Mode,
  type Sampling,
  type Split,
} from "../core/index.ts";
import type { DeviceLimits } from "./device.ts";
import type { GpuPlan, ShapePlan } from "./plan.ts";

/** The buffer that holds all that a pass uploads. */
export const INPUTS = "inputs";

/** A kernel that a choice may name, "matmul=naive attention=plain". */
export interface Variant {
  family: string;
  name: string;
  /** What it needs of WebGPU, "" for nothing. */
  feature: string;
  /** Offered for training, else for benches alone. */
  training: boolean;
  default: boolean;
}

export const gpuVariants = (core: Core): Variant[] => JSON.parse(core.text(core.abi.tabgpt_gpu_variants())) as Variant[];

export interface BatchOptions {
  batch: number;
  length: number;
  /** Apply the dropout of (step, micro). */
  train: boolean;
  step: number;
  micro: number;
}

export class GpuHandle {
  readonly #core: Core;
  readonly #pointer: number;
  #plan: GpuPlan | null = null;
  #inputBytes = 0;

  /**
   * variants: what differs from the core's choice of kernels. Throws TabgptError with the limit, the need and
   * the largest setting that fits, or for kernels that it does not offer.
   */
  constructor(core: Core, config: CoreConfig, mode: Mode, limits: DeviceLimits, variants = "") {
    this.#core = core;
    const handle = new ConfigHandle(core, config);
    try {
      const { maxStorageBufferBindingSize: binding, maxBufferSize: buffer } = limits;
      this.#pointer = core.withArrays([mode, variants], (m, chosen) =>
        core.abi.tabgpt_gpu_open(handle.pointer, m!, binding, buffer, chosen!),
      );
    } finally {
      handle.free();
    }
    if (this.#pointer === 0) core.fail("planning for the GPU");
  }

  get plan(): GpuPlan {
    this.#plan ??= JSON.parse(this.#core.text(this.#core.abi.tabgpt_gpu_plan(this.#pointer))) as GpuPlan;
    this.#inputBytes = this.#plan.buffers.find(({ name }) => name === INPUTS)!.bytes;
    return this.#plan;
  }

  close(): void {
    this.#core.abi.tabgpt_gpu_close(this.#pointer);
  }

  /** Tensors and programs for batches of another shape than the plan's. */
  programs(batch: number, length: number): ShapePlan {
    const text = this.#core.text(this.#core.abi.tabgpt_gpu_programs(this.#pointer, batch, length));
    return text === "" ? this.#core.fail("planning another batch") : (JSON.parse(text) as ShapePlan);
  }

  /** Bytes on the GPU by role. */
  memory(): MemoryPlan {
    const bytes = (role: MemoryRole): number =>
      this.#core.withArrays([role], (r) => this.#core.abi.tabgpt_gpu_memory(this.#pointer, r!));
    return Object.fromEntries(MEMORY_ROLES.map((role) => [role, bytes(role)])) as MemoryPlan;
  }

  /** A view of what the pass that was filled last uploads; to be used at once. */
  get inputs(): Uint8Array {
    return this.#core.bytes(this.#core.abi.tabgpt_gpu_inputs(this.#pointer), this.#inputBytes);
  }

  initialValues(parameter: string, count: number): Float32Array<ArrayBuffer> {
    const pointer = this.#core.alloc(4 * count);
    try {
      const status = this.#core.withArrays([parameter], (name) =>
        this.#core.abi.tabgpt_gpu_initial_values(this.#pointer, name!, pointer),
      );
      this.#core.check(status, "initialising weights");
      return new Float32Array(this.#core.floats(pointer, count));
    } finally {
      this.#core.abi.tabgpt_free(pointer);
    }
  }

  weightsChanged(): void {
    this.#core.check(this.#core.abi.tabgpt_gpu_weights_changed(this.#pointer), "setting weights");
  }

  setTokens(tokens: Uint32Array): void {
    const status = this.#core.withArrays([tokens], (p) => this.#core.abi.tabgpt_gpu_set_tokens(this.#pointer, p!, tokens.length));
    this.#core.check(status, "setting the corpus");
  }

  get stepNumber(): number {
    return this.#core.abi.tabgpt_gpu_step_number(this.#pointer);
  }

  set stepNumber(step: number) {
    this.#core.check(this.#core.abi.tabgpt_gpu_set_step_number(this.#pointer, step), "setting the step number");
  }

  fillStep(micro: number): void {
    this.#core.check(this.#core.abi.tabgpt_gpu_fill_step(this.#pointer, micro), "drawing a batch");
  }

  endStep(): void {
    this.#core.check(this.#core.abi.tabgpt_gpu_end_step(this.#pointer), "ending a step");
  }

  /** Takes what a 0-based step left in "stats"; then metric() is of that step. */
  readStats(step: number, stats: Float32Array): void {
    const status = this.#core.withArrays([stats], (p) => this.#core.abi.tabgpt_gpu_read_stats(this.#pointer, step, p!));
    this.#core.check(status, "reading a step's results");
  }

  metric(name: string): number {
    return this.#core.withArrays([name], (n) => this.#core.abi.tabgpt_gpu_metric(this.#pointer, n!));
  }

  fillBatch(tokens: Uint32Array, targets: Uint32Array, { batch, length, train, step, micro }: BatchOptions): void {
    if (tokens.length !== batch * length || targets.length !== batch * length) {
      throw new TabgptError(
        `tokens and targets must hold ${batch} x ${length} ids, but hold ${tokens.length} and ${targets.length}`,
      );
    }
    const status = this.#core.withArrays([tokens, targets], (x, y) =>
      this.#core.abi.tabgpt_gpu_fill_batch(this.#pointer, x!, y!, batch, length, train ? 1 : 0, step, micro),
    );
    this.#core.check(status, "filling a batch");
  }

  /** Of the batch that was filled last; NaN where one of its losses is not finite. */
  meanLoss(losses: Float32Array): number {
    return this.#core.withArrays([losses], (p) => this.#core.abi.tabgpt_gpu_mean_loss(this.#pointer, p!));
  }

  evaluateBegin(split: Split, batches: number): void {
    const status = this.#core.withArrays([split], (s) => this.#core.abi.tabgpt_gpu_evaluate_begin(this.#pointer, s!, batches));
    this.#core.check(status, "evaluating");
  }

  evaluateFill(): void {
    this.#core.check(this.#core.abi.tabgpt_gpu_evaluate_fill(this.#pointer), "evaluating");
  }

  /** True while there is more to do. Then metric "loss" holds the mean. */
  evaluateNext(losses: Float32Array): boolean {
    const status = this.#core.withArrays([losses], (p) => this.#core.abi.tabgpt_gpu_evaluate_next(this.#pointer, p!));
    return this.#core.check(status, "evaluating") === 1;
  }

  generateBegin(prompt: Uint32Array, { temperature, topK, topP, seed }: Sampling): void {
    const status = this.#core.withArrays([prompt], (p) =>
      this.#core.abi.tabgpt_gpu_generate_begin(this.#pointer, p!, prompt.length, temperature, topK, topP, seed),
    );
    this.#core.check(status, "sampling");
  }

  /** True where the cache is to be filled first. */
  generateFill(): boolean {
    return this.#core.check(this.#core.abi.tabgpt_gpu_generate_fill(this.#pointer), "sampling") === 1;
  }

  generateNext(logits: Float32Array): number {
    const status = this.#core.withArrays([logits], (p) => this.#core.abi.tabgpt_gpu_generate_next(this.#pointer, p!));
    return this.#core.check(status, "sampling");
  }
}
