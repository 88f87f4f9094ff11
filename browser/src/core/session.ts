/**
 * @file A model in WASM memory: typed methods that mirror the C ABI, one each. Tensors are copied out
 * and in as Float32Array; every failure is a TabgptError with the core's sentence.
 */
import { ConfigHandle, type CoreConfig, type Mode } from "./config.ts";
import type { Core } from "./core.ts";
import { TabgptError } from "./errors.ts";

export type Split = "train" | "val";

export interface StepMetrics {
  /** Steps done, this one included. */
  step: number;
  /** Mean loss before the update, in nats a token. */
  loss: number;
  lr: number;
  /** Global gradient norm before clipping. */
  gradNorm: number;
  /** False: the step changed no parameter. */
  finite: boolean;
}

export interface Sampling {
  temperature: number;
  topK: number;
  topP: number;
  seed: number;
}

/** Which dropout mask a loss sees: none unless `train`. */
export interface LossOptions {
  train?: boolean;
  step?: number;
  micro?: number;
}

export class Session {
  readonly core: Core;
  /** A step is done when it returns. */
  readonly stepsUnderWay = 1;
  readonly canBeLost = false;
  readonly #pointer: number;

  /** Allocates all that the plan needs, zeroed. `threads` beyond one need a threaded build. */
  constructor(core: Core, config: CoreConfig, mode: Mode, threads = core.threads) {
    this.core = core;
    const handle = new ConfigHandle(core, config);
    try {
      this.#pointer = core.withArrays([mode], (m) => core.abi.tabgpt_open(handle.pointer, m!, threads));
    } finally {
      handle.free();
    }
    if (this.#pointer === 0) core.fail("opening a session");
  }

  close(): void {
    this.core.abi.tabgpt_close(this.#pointer);
  }

  get threads(): number {
    return this.core.abi.tabgpt_threads(this.#pointer);
  }

  get isa(): string {
    const { isa, build } = this.core;
    return build.address === 64 ? `${isa}, 64-bit` : isa;
  }

  /** Of the WASM memory, which holds this session only. */
  get memoryBytes(): number {
    return this.core.memoryBytes;
  }

  threadTiles(thread: number): number {
    return this.core.abi.tabgpt_thread_tiles(this.#pointer, thread);
  }

  initWeights(): void {
    this.core.check(this.core.abi.tabgpt_init_weights(this.#pointer), "initialising weights");
  }

  setTokens(tokens: Uint32Array): void {
    const { abi } = this.core;
    const status = this.core.withArrays([tokens], (p) => abi.tabgpt_set_tokens(this.#pointer, p!, tokens.length));
    this.core.check(status, "setting the corpus");
  }

  /** Names of every tensor that can be read, in the core's order. */
  names(): string[] {
    const { abi } = this.core;
    const count = abi.tabgpt_tensor_count(this.#pointer);
    return Array.from({ length: count }, (_, i) => this.core.text(abi.tabgpt_tensor_name(this.#pointer, i)));
  }

  shape(name: string): number[] {
    const { abi } = this.core;
    this.address(name);
    return this.core.withArrays([name], (n) => {
      const ndim = abi.tabgpt_tensor_ndim(this.#pointer, n!);
      return Array.from({ length: ndim }, (_, axis) => abi.tabgpt_tensor_dim(this.#pointer, n!, axis));
    });
  }

  /** A copy of a tensor's values, row-major. */
  tensor(name: string): Float32Array<ArrayBuffer> {
    return new Float32Array(this.#view(name));
  }

  /** Overwrites a tensor; the length must be its own. */
  setTensor(name: string, values: Float32Array): void {
    const view = this.#view(name);
    if (view.length !== values.length) {
      throw new TabgptError(`"${name}" holds ${view.length} values, but ${values.length} were given`);
    }
    view.set(values);
  }

  /** Where a tensor lies in the memory. */
  address(name: string): number {
    const pointer = this.core.withArrays([name], (n) => this.core.abi.tabgpt_tensor_data(this.#pointer, n!));
    if (pointer === 0) throw new TabgptError(`there is no tensor "${name}"`);
    return pointer;
  }

  #view(name: string): Float32Array {
    return this.core.floats(this.address(name), this.shape(name).reduce((product, size) => product * size, 1));
  }

  get stepNumber(): number {
    return this.core.abi.tabgpt_step_number(this.#pointer);
  }

  set stepNumber(step: number) {
    this.core.check(this.core.abi.tabgpt_set_step_number(this.#pointer, step), "setting the step number");
  }

  /** A metric of the last step, loss or evaluation, by the name that c_api.h lists. */
  metric(name: string): number {
    return this.core.withArrays([name], (n) => this.core.abi.tabgpt_metric(this.#pointer, n!));
  }

  /** One optimizer step on the training split. */
  step(): StepMetrics {
    this.core.check(this.core.abi.tabgpt_step(this.#pointer), "the training step");
    return {
      step: this.stepNumber,
      loss: this.metric("loss"),
      lr: this.metric("lr"),
      gradNorm: this.metric("grad_norm"),
      finite: this.metric("finite") === 1,
    };
  }

  /** Mean loss of tokens and targets, both [batch, length] row-major. */
  loss(tokens: Uint32Array, targets: Uint32Array, batch: number, length: number, options: LossOptions = {}): number {
    return this.#loss("tabgpt_loss", tokens, targets, batch, length, options);
  }

  /** The same; leaves the gradients in the tensors "grad:*". */
  lossAndGrads(
    tokens: Uint32Array,
    targets: Uint32Array,
    batch: number,
    length: number,
    options: LossOptions = {},
  ): number {
    return this.#loss("tabgpt_loss_and_grads", tokens, targets, batch, length, options);
  }

  #loss(
    name: "tabgpt_loss" | "tabgpt_loss_and_grads",
    tokens: Uint32Array,
    targets: Uint32Array,
    batch: number,
    length: number,
    { train = false, step = 0, micro = 0 }: LossOptions,
  ): number {
    if (tokens.length !== batch * length || targets.length !== batch * length) {
      throw new TabgptError(
        `tokens and targets must hold ${batch} x ${length} ids, but hold ${tokens.length} and ${targets.length}`,
      );
    }
    const run = this.core.abi[name];
    const status = this.core.withArrays([tokens, targets], (x, y) =>
      run(this.#pointer, x!, y!, batch, length, train ? 1 : 0, step, micro),
    );
    this.core.check(status, name);
    return this.metric("loss");
  }

  /** Logits [batch, length, vocabSize]. */
  logits(tokens: Uint32Array, batch: number, length: number, vocabSize: number): Float32Array<ArrayBuffer> {
    const size = batch * length * vocabSize;
    const out = this.core.alloc(size * Float32Array.BYTES_PER_ELEMENT);
    try {
      const status = this.core.withArrays([tokens], (x) =>
        this.core.abi.tabgpt_logits(this.#pointer, x!, batch, length, out),
      );
      this.core.check(status, "computing logits");
      return new Float32Array(this.core.floats(out, size));
    } finally {
      this.core.abi.tabgpt_free(out);
    }
  }

  /** Starts an evaluation; 0 batches is the whole split. */
  evaluateBegin(split: Split, batches = 0): void {
    const status = this.core.withArrays([split], (s) =>
      this.core.abi.tabgpt_evaluate_begin(this.#pointer, s!, batches),
    );
    this.core.check(status, "evaluating");
  }

  /** One batch; true while there is more to do. Then metric "loss" holds the mean. */
  evaluateNext(): boolean {
    return this.core.check(this.core.abi.tabgpt_evaluate_next(this.#pointer), "evaluating") === 1;
  }

  /** Mean loss over a split, all at once. */
  evaluate(split: Split, batches = 0): number {
    this.evaluateBegin(split, batches);
    while (this.evaluateNext());
    return this.metric("loss");
  }

  generateBegin(prompt: Uint32Array, sampling: Sampling): void {
    const { temperature, topK, topP, seed } = sampling;
    const status = this.core.withArrays([prompt], (p) =>
      this.core.abi.tabgpt_generate_begin(this.#pointer, p!, prompt.length, temperature, topK, topP, seed),
    );
    this.core.check(status, "sampling");
  }

  /** The next token's id. */
  generateNext(): number {
    return this.core.check(this.core.abi.tabgpt_generate_next(this.#pointer), "sampling");
  }
}
