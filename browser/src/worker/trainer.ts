/**
 * @file The run's loop: what reference/tabgpt/train.py does, in turns so that commands get through.
 * The core does each step; this file decides what comes next.
 */
import { messageOf, NotFiniteError, TabgptError } from "../core/index.ts";
import { DeviceLostError } from "../gpu/errors.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import type { Values } from "../presets.ts";
import type { Tokenizer } from "../tokenizer.ts";
import { evalPoints, type MetricLine } from "./metrics.ts";
import type { EvalPoint, MetricPoint, RunEvent, RunState, SampleSettings } from "./protocol.ts";
import { generate } from "./sampler.ts";
import type { RunSession } from "./session.ts";
import { StepsUnderWay, type Answer } from "./steps.ts";
import { breathe, Turns } from "./turns.ts";

/** Steps reach the page in batches, at most this often. */
const REPORT_MS = 100;
/** A GPU that is lost this often before it gets anywhere is given up. */
const MAX_RESTORES = 3;

export interface TrainerOptions {
  session: RunSession;
  tokenizer: Tokenizer;
  info: RunInfo & { train: Values; run: Values };
  /** Lines of the steps done before a resume. */
  lines: MetricLine[];
  live: SampleSettings;
  emit: (event: RunEvent) => void;
  /** False where it could not be saved. */
  save: (trainer: Trainer) => Promise<boolean>;
  /** A new session in the run's last state in memory, where the session's GPU was lost. Throws where none can be had. */
  restore: () => Promise<RunSession>;
  turns: Turns;
}

export class Trainer {
  readonly lines: MetricLine[];
  readonly totalSteps: number;
  readonly #options: TrainerOptions;
  readonly #run: Record<string, number>;
  readonly #steps = new StepsUnderWay();
  #session: RunSession;
  #wanted: "run" | "pause" | "stop" = "run";
  #loop: Promise<void> | null = null;
  #state: RunState = "idle";
  #pending: MetricPoint[] = [];
  #reportedAt = 0;
  #savedAt = performance.now();
  /** Of this run; null before its first save. */
  #savedStep: number | null;
  #sampledStep: number;
  #toldOfPrompt = false;
  #wallSeconds: number;
  #turnBegan = 0;
  /** What settle() met, for the loop to end with. */
  #failure: unknown = null;
  #restores = { step: -1, count: 0 };

  constructor(options: TrainerOptions) {
    this.#options = options;
    this.#session = options.session;
    this.lines = options.lines;
    this.totalSteps = options.info.train.steps as number;
    this.#run = options.info.run as Record<string, number>;
    this.#wallSeconds = this.lines.at(-1)?.wallSeconds ?? 0;
    this.#sampledStep = this.session.stepNumber;
    this.#savedStep = this.#sampledStep > 0 ? this.#sampledStep : null;
  }

  get session(): RunSession {
    return this.#session;
  }

  get info(): RunInfo {
    return { ...this.#options.info, step: this.session.stepNumber };
  }

  get state(): RunState {
    return this.#state;
  }

  /** Trains until paused, stopped, done or failed. */
  start(): void {
    if (this.#loop) return;
    this.#wanted = "run";
    this.#loop = this.#train().finally(() => (this.#loop = null));
  }

  /** Resolves once the step in progress is done and the state is saved. */
  async pause(): Promise<void> {
    if (this.#wanted === "run") this.#wanted = "pause";
    await this.#loop;
  }

  async stop(): Promise<void> {
    this.#wanted = "stop";
    await this.#loop;
    if (this.#state === "paused") this.#enter("stopped");
  }

  /** One optimizer step of a paused run, without evaluation or sample. */
  async step(): Promise<void> {
    if (this.#state !== "paused" || this.#stepsLeft === 0) return;
    await this.#guard(async () => {
      await this.#restoring(async () => {
        await this.#options.turns.take(() => this.#step());
        await this.#finishOr("paused");
      });
    });
  }

  get #stepsLeft(): number {
    return this.totalSteps - this.session.stepNumber;
  }

  async #train(): Promise<void> {
    await this.#guard(() =>
      this.#restoring(async () => {
        this.#enter("training");
        while (this.#wanted === "run" && (this.#stepsLeft > 0 || this.#evaluationDue() || this.#sampleDue())) {
          await this.#options.turns.take(() => this.#advance());
          await breathe();
        }
        await this.#finishOr(this.#wanted === "stop" ? "stopped" : "paused");
      }),
    );
  }

  /** Does `work`; anew after each loss of the GPU, from the run's last state in memory. */
  async #restoring(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof DeviceLostError)) throw error;
        await this.#restore(error);
      }
    }
  }

  /** The same for a run that stands still, whose GPU was lost under someone else's work. */
  async recover(error: DeviceLostError): Promise<void> {
    if (this.#loop === null) await this.#restore(error);
    else throw error;
  }

  async #restore(error: DeviceLostError): Promise<void> {
    this.#steps.forget();
    this.#failure = null;
    this.#pending = [];
    const reached = this.#session.stepNumber;
    const stopped = `step ${reached}: ${error.message}, so training stopped, and ${this.#whatIsKept}`;
    try {
      this.#session = await this.#options.restore();
    } catch (obstacle) {
      throw new TabgptError(`${stopped}. No new device could be had: ${messageOf(obstacle)}. Resume it on the CPU.`);
    }
    const step = this.#session.stepNumber;
    this.#restores = { step, count: step === this.#restores.step ? this.#restores.count + 1 : 1 };
    if (this.#restores.count > MAX_RESTORES) throw new TabgptError(`${stopped}. It was lost ${MAX_RESTORES} times from there. Resume it on the CPU.`);
    while (this.lines.length > 0 && this.lines.at(-1)!.step > step) this.lines.pop();
    this.#sampledStep = Math.min(this.#sampledStep, step);
    const message = `Step ${reached}: ${error.message}. The run goes on from step ${step}, its last state in memory, on a new device.`;
    this.#options.emit({ event: "history", points: [...this.lines], evals: evalPoints(this.lines, this.totalSteps) });
    this.#options.emit({ event: "notice", message });
  }

  async #finishOr(otherwise: RunState): Promise<void> {
    await this.settle();
    this.#report(true);
    const finished = this.#stepsLeft === 0 && !this.#evaluationDue();
    await this.#save();
    this.#enter(finished ? "finished" : otherwise);
  }

  async #guard(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#steps.forget();
      this.#report(true);
      this.#options.emit({ event: "error", message: messageOf(error) });
      this.#enter("failed");
    }
  }

  /** The next thing: an evaluation that is due, a sample that is due, or a step. */
  async #advance(): Promise<void> {
    this.#turnBegan = performance.now();
    if (this.#evaluationDue()) await this.#evaluate();
    else if (this.#sampleDue()) await this.#sample();
    else await this.#step();
    const now = performance.now();
    this.#wallSeconds += (now - this.#turnBegan) / 1000;
    this.#turnBegan = now;
    if (!this.#evaluationDue() && this.#autosaveDue()) await this.#save();
  }

  /** Asks for a step and takes the answers that are due: all before an evaluation, a sample or the end. */
  async #step(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    this.#steps.ask(this.#session);
    const mayWait = this.#isMilestone ? 0 : this.#session.stepsUnderWay - 1;
    while (this.#steps.count > mayWait) this.#record(await this.#steps.answer());
  }

  /** Something follows this step that needs all answers. */
  get #isMilestone(): boolean {
    const step = this.#session.stepNumber;
    const { eval_interval: evaluate, sample_interval: sample } = this.#run;
    return this.#stepsLeft === 0 || step % evaluate! === 0 || (sample! > 0 && step % sample! === 0);
  }

  /** Waits for all steps under way. What they throw ends the run too, whoever waits. */
  async settle(): Promise<void> {
    try {
      if (this.#failure !== null) throw this.#failure;
      while (this.#steps.count > 0) this.#record(await this.#steps.answer());
    } catch (error) {
      this.#failure = error;
      throw error;
    }
  }

  #record({ step, loss, lr, gradNorm, finite, seconds }: Answer): void {
    const { info } = this.#options;
    if (!finite) {
      const what = Number.isFinite(loss) ? `gradient norm is ${gradNorm}` : `loss is ${loss}`;
      throw new TabgptError(
        `step ${step}: the ${what}, so training stopped. That step changed no parameter, and ${this.#whatIsKept}. ` +
          `Start again with a lower learning rate or a longer warm-up.`,
      );
    }
    const perStep = (info.train.batch_size as number) * (info.train.grad_accum as number) * (info.model.ctx as number);
    const point = { step, loss, lr, gradNorm, tokensPerSecond: perStep / seconds };
    this.lines.push({ ...point, wallSeconds: this.#wallSeconds + (performance.now() - this.#turnBegan) / 1000 });
    this.#pending.push(point);
    this.#report(false);
  }

  get #whatIsKept(): string {
    return this.#savedStep === null ? "this run had not been saved yet" : `the saved run (step ${this.#savedStep}) is untouched`;
  }

  /** The last step, and every eval_interval, until its line carries a validation loss. */
  #evaluationDue(): boolean {
    const step = this.session.stepNumber;
    const line = this.lines.at(-1);
    if (line?.step !== step || line.valLoss !== undefined) return false;
    return step === this.totalSteps || step % this.#run.eval_interval! === 0;
  }

  /** Seeded batches on the way, the whole split after the last step. Given up when no longer wanted. */
  async #evaluate(): Promise<void> {
    const step = this.session.stepNumber;
    const whole = step === this.totalSteps;
    this.#report(true);
    this.#enter("evaluating");
    this.session.evaluateBegin("val", whole ? 0 : this.#run.eval_batches!);
    while (await this.session.evaluateNext()) {
      await breathe();
      if (this.#wanted !== "run") return;
    }
    const point: EvalPoint = { step, valLoss: this.session.metric("loss"), whole };
    if (!Number.isFinite(point.valLoss)) {
      throw new TabgptError(
        `step ${step}: the validation loss is ${point.valLoss}, so training stopped; ${this.#whatIsKept}. ` +
          `Start again with a lower learning rate.`,
      );
    }
    this.lines.at(-1)!.valLoss = point.valLoss;
    this.#options.emit({ event: "evaluated", point });
    this.#enter("training");
  }

  #sampleDue(): boolean {
    const step = this.session.stepNumber;
    const interval = this.#run.sample_interval!;
    return interval > 0 && step % interval === 0 && step > this.#sampledStep;
  }

  async #sample(): Promise<void> {
    const { session, tokenizer, emit } = this.#options;
    const live = this.#liveSettings();
    const step = this.session.stepNumber;
    this.#sampledStep = step;
    this.#enter("sampling");
    const send = (text: string, done: boolean): void =>
      emit({ event: "sample", live: true, step, prompt: live.prompt, text, done });
    try {
      const cancelled = (): boolean => this.#wanted !== "run";
      send(await generate({ session, tokenizer, settings: live, report: (text) => send(text, false), cancelled }), true);
    } catch (error) {
      emit({ event: "notice", message: `No live sample: ${messageOf(error)}` });
    }
    this.#enter("training");
  }

  /** A prompt that this text does not know costs the prompt, not the samples. */
  #liveSettings(): SampleSettings {
    const { live, tokenizer, emit } = this.#options;
    try {
      tokenizer.encode(live.prompt);
      return live;
    } catch (error) {
      if (!this.#toldOfPrompt) emit({ event: "notice", message: `Live samples begin without the prompt: ${messageOf(error)}` });
      this.#toldOfPrompt = true;
      return { ...live, prompt: "" };
    }
  }

  #autosaveDue(): boolean {
    const every = this.#run.autosave_seconds!;
    return every > 0 && performance.now() - this.#savedAt > every * 1000;
  }

  async #save(): Promise<void> {
    await this.settle();
    const step = this.session.stepNumber;
    try {
      if (await this.#options.save(this)) this.#savedStep = step;
    } catch (error) {
      if (!(error instanceof NotFiniteError)) throw error;
      throw new TabgptError(
        `step ${step}: ${error.message}, although its loss and gradient norm were finite, so training stopped, and ` +
          `${this.#whatIsKept}. Start again with a lower learning rate or with clipping.`,
      );
    }
    this.#savedAt = performance.now();
  }

  #report(all: boolean): void {
    const now = performance.now();
    if (this.#pending.length === 0 || (!all && now - this.#reportedAt < REPORT_MS)) return;
    this.#options.emit({ event: "metrics", points: this.#pending });
    this.#pending = [];
    this.#reportedAt = now;
  }

  #enter(state: RunState): void {
    this.#state = state;
    this.#options.emit({ event: "state", state, step: this.session.stepNumber });
  }
}
