/**
 * @file A model on the GPU, with the methods of the WASM session. What is submitted runs in order, so a
 * step's work is handed over in one go, and only its answer is waited for.
 */
import { TabgptError, type Core, type CoreConfig, type LossOptions, type Mode, type Sampling, type Split, type StepMetrics } from "../core/index.ts";
import type { GpuDevice } from "./device.ts";
import { GpuValidationError } from "./errors.ts";
import { Executor } from "./executor.ts";
import { GpuHandle, INPUTS } from "./handle.ts";
import { onGpu } from "./kernels.ts";
import type { Pipelines } from "./pipelines.ts";
import type { ShaderSources } from "./shaders.ts";

export interface GpuSessionOptions {
  /** A WASM instance with room for the corpus, of any build. */
  core: Core;
  device: GpuDevice;
  pipelines: Pipelines;
  sources: ShaderSources;
  config: CoreConfig;
  mode: Mode;
  /** Kernels where they are not the core's choice; see GpuHandle. */
  variants?: string;
  onPipeline?: (done: number, total: number) => void;
}

/** Where "step" holds the step's number; shaders/step.wgsl. */
const STEP_WORD = 1;
const PARAMETER = /^transformer\./;
const MOMENT = /^[mv]:/;
/** In the plan for programs and the host, not of the model. */
const INTERNAL = ["stats", "decode.logits"];

export class GpuSession {
  /** The next step is submitted before the last one's loss is read. */
  readonly stepsUnderWay = 2;
  readonly canBeLost = true;
  readonly threads = 1;
  readonly memoryBytes: number;
  readonly device: GpuDevice;
  readonly #handle: GpuHandle;
  readonly #executor: Executor;
  /** The batch shape in use, "" for the plan's own. */
  #shape = "";

  private constructor(device: GpuDevice, handle: GpuHandle, executor: Executor) {
    this.device = device;
    this.#handle = handle;
    this.#executor = executor;
    this.memoryBytes = handle.memory().total;
  }

  /** Throws TabgptError where a limit does not hold, a shader does not compile, or there is no memory: nothing is left behind. */
  static async open(options: GpuSessionOptions): Promise<GpuSession> {
    const { core, device, pipelines, sources, config, mode, variants = "", onPipeline } = options;
    const handle = new GpuHandle(core, config, mode, device.limits, onGpu(variants, device));
    try {
      const executor = await Executor.create({ device, pipelines, sources, plan: handle.plan, ...(onPipeline && { onPipeline }) });
      return new GpuSession(device, handle, executor);
    } catch (error) {
      handle.close();
      throw error;
    }
  }

  /** Gives back all that is on the GPU but the compiled pipelines. */
  close(): void {
    this.#executor.destroy();
    this.#handle.close();
  }

  get isa(): string {
    return this.device.identity;
  }

  initWeights(): void {
    for (const name of this.names()) {
      if (!PARAMETER.test(name)) continue;
      const count = this.shape(name).reduce((product, size) => product * size, 1);
      this.#executor.write(name, this.#handle.initialValues(name, count));
    }
    this.#executor.clear(this.names().filter((name) => MOMENT.test(name)));
    this.#handle.weightsChanged();
    this.stepNumber = 0;
  }

  setTokens(tokens: Uint32Array): void {
    this.#handle.setTokens(tokens);
  }

  names(): string[] {
    const { buffers, tensors } = this.#executor.plan;
    const isModels = (name: string): boolean => buffers[tensors[name]!.buffer]!.role !== "tokens" && !INTERNAL.includes(name);
    return this.#executor.names.filter(isModels);
  }

  shape(name: string): number[] {
    return this.#executor.tensor(name).shape;
  }

  async tensor(name: string): Promise<Float32Array<ArrayBuffer>> {
    return new Float32Array(await this.#executor.read(name));
  }

  setTensor(name: string, values: Float32Array): void {
    const size = this.shape(name).reduce((product, n) => product * n, 1);
    if (size !== values.length) throw new TabgptError(`"${name}" holds ${size} values, but ${values.length} were given`);
    this.#executor.write(name, values);
    if (PARAMETER.test(name)) this.#handle.weightsChanged();
  }

  get stepNumber(): number {
    return this.#handle.stepNumber;
  }

  set stepNumber(step: number) {
    this.#handle.stepNumber = step;
  }

  metric(name: string): number {
    return this.#handle.metric(name);
  }

  /** One optimizer step on the training split; all of it is submitted when this returns its promise. */
  async step(): Promise<StepMetrics> {
    const step = this.stepNumber;
    const [told, stats] = await this.#watch("step", () => {
      this.#useOwnShape();
      this.#executor.submit("begin_step");
      for (let micro = 0; micro < this.#executor.plan.micro_batches; micro++) {
        this.#handle.fillStep(micro);
        this.#pass("forward", "backward");
      }
      this.#executor.submit("update");
      this.#handle.endStep();
      return this.#executor.readLate(["step", "stats"]);
    });
    // A submit that the GPU dropped leaves the answer of an earlier step, which looks like any other.
    const answered = new Uint32Array(told!)[STEP_WORD];
    if (answered !== step) throw new GpuValidationError(`step ${step}: the GPU gave the answer of step ${answered}`);
    this.#handle.readStats(step, new Float32Array(stats!));
    return {
      step: step + 1,
      loss: this.metric("loss"),
      lr: this.metric("lr"),
      gradNorm: this.metric("grad_norm"),
      finite: this.metric("finite") === 1,
    };
  }

  /** Mean loss of tokens and targets, both [batch, length] row-major. */
  loss(tokens: Uint32Array, targets: Uint32Array, batch: number, length: number, options: LossOptions = {}): Promise<number> {
    return this.#loss(["forward", "losses"], tokens, targets, batch, length, options);
  }

  /** The same; leaves the gradients in the tensors "grad:*". */
  lossAndGrads(tokens: Uint32Array, targets: Uint32Array, batch: number, length: number, options: LossOptions = {}): Promise<number> {
    return this.#loss(["begin_step", "forward", "backward"], tokens, targets, batch, length, options);
  }

  async #loss(
    programs: string[],
    tokens: Uint32Array,
    targets: Uint32Array,
    batch: number,
    length: number,
    { train = false, step = 0, micro = 0 }: LossOptions,
  ): Promise<number> {
    await this.#useShape(batch, length);
    this.#handle.fillBatch(tokens, targets, { batch, length, train, step, micro });
    const losses = await this.#watch(programs.join(), () => {
      this.#pass(...programs);
      return this.#executor.read("losses");
    });
    return this.#handle.meanLoss(new Float32Array(losses));
  }

  /** Logits [batch, length, vocabSize]: of as many sequences at a time as the plan has room for. */
  async logits(tokens: Uint32Array, batch: number, length: number, vocabSize: number): Promise<Float32Array<ArrayBuffer>> {
    const [ownBatch, ownLength] = this.#executor.plan.batch;
    const most = Math.max(1, Math.floor((ownBatch * ownLength) / length));
    const all = new Float32Array(batch * length * vocabSize);
    for (let first = 0; first < Math.max(1, batch); first += most) {
      const count = Math.min(most, batch - first);
      const part = tokens.subarray(first * length, (first + count) * length);
      await this.#logits(part, count, length, all.subarray(first * length * vocabSize, (first + count) * length * vocabSize));
    }
    return all;
  }

  /** Of one batch, into `out`: a chunk of rows at a time, as the plan has room for them. */
  async #logits(tokens: Uint32Array, batch: number, length: number, out: Float32Array): Promise<void> {
    await this.#useShape(batch, length);
    this.#handle.fillBatch(tokens, tokens, { batch, length, train: false, step: 0, micro: 0 });
    for (let done = 0, chunk = 0; done < out.length; chunk++) {
      const program = `logits.${chunk}`;
      const bytes = await this.#watch(program, () => {
        if (chunk === 0) this.#pass("forward");
        this.#executor.submit(program);
        return this.#executor.readResult(program, "out");
      });
      out.set(new Float32Array(bytes), done);
      done += bytes.byteLength / Float32Array.BYTES_PER_ELEMENT;
    }
  }

  evaluateBegin(split: Split, batches = 0): void {
    this.#handle.evaluateBegin(split, batches);
  }

  /** One batch; true while there is more to do. Then metric "loss" holds the mean. */
  async evaluateNext(): Promise<boolean> {
    const losses = await this.#watch("evaluate", () => {
      this.#useOwnShape();
      this.#handle.evaluateFill();
      this.#pass("forward", "losses");
      return this.#executor.read("losses");
    });
    return this.#handle.evaluateNext(new Float32Array(losses));
  }

  async evaluate(split: Split, batches = 0): Promise<number> {
    this.evaluateBegin(split, batches);
    while (await this.evaluateNext());
    return this.metric("loss");
  }

  generateBegin(prompt: Uint32Array, sampling: Sampling): void {
    this.#handle.generateBegin(prompt, sampling);
  }

  /** The next token's id. */
  async generateNext(): Promise<number> {
    const isPrefill = this.#handle.generateFill();
    const programs = isPrefill ? ["prefill", "decode"] : ["decode"];
    const logits = await this.#watch(programs.join(), () => {
      this.#useOwnShape();
      this.#pass(...programs);
      return this.#executor.read("decode.logits");
    });
    return this.#handle.generateNext(new Float32Array(logits));
  }

  /** Uploads what the core has filled in, then submits. */
  #pass(...programs: string[]): void {
    this.#executor.writeBuffer(INPUTS, this.#handle.inputs);
    for (const program of programs) this.#executor.submit(program);
  }

  /** A first time is counted for each batch shape, which has programs of its own. */
  async #watch<T>(name: string, submit: () => Promise<T>): Promise<T> {
    // In an object, since a promise of a promise would be waited for inside of the error scopes.
    const { answer } = await this.#executor.watch(`${name} ${this.#shape}`, () => {
      const submitted = submit();
      submitted.catch(() => undefined);
      return { answer: submitted };
    });
    return answer;
  }

  #useOwnShape(): void {
    this.#executor.useOwnShape();
    this.#shape = "";
  }

  async #useShape(batch: number, length: number): Promise<void> {
    const [ownBatch, ownLength] = this.#executor.plan.batch;
    if (batch === ownBatch && length === ownLength) return this.#useOwnShape();
    const shape = `${batch} x ${length}`;
    if (this.#shape === shape) return;
    await this.#executor.useShape(this.#handle.programs(batch, length));
    this.#shape = shape;
  }
}
