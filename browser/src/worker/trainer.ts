/**
 * @file The run's loop: what reference/tabgpt/train.py does, in turns so that commands get through.
 * The core does each step; this file decides what comes next.
 */
import { messageOf, TabgptError, type Session } from "../core/index.ts";
import type { RunInfo } from "../checkpoint/checkpoint.ts";
import type { Values } from "../presets.ts";
import type { Tokenizer } from "../tokenizer.ts";
import type { MetricLine } from "./metrics.ts";
import type { EvalPoint, MetricPoint, RunEvent, RunState, SampleSettings } from "./protocol.ts";
import { generate } from "./sampler.ts";
import { breathe, Turns } from "./turns.ts";

/** Steps reach the page in batches, at most this often. */
const REPORT_MS = 100;

export interface TrainerOptions {
  session: Session;
  tokenizer: Tokenizer;
  info: RunInfo & { train: Values; run: Values };
  /** Lines of the steps done before a resume. */
  lines: MetricLine[];
  live: SampleSettings;
  emit: (event: RunEvent) => void;
  /** False where it could not be saved. */
  save: (trainer: Trainer) => Promise<boolean>;
  turns: Turns;
}

export class Trainer {
  readonly session: Session;
  readonly lines: MetricLine[];
  readonly totalSteps: number;
  readonly #options: TrainerOptions;
  readonly #run: Record<string, number>;
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

  constructor(options: TrainerOptions) {
    this.#options = options;
    this.session = options.session;
    this.lines = options.lines;
    this.totalSteps = options.info.train.steps as number;
    this.#run = options.info.run as Record<string, number>;
    this.#wallSeconds = this.lines.at(-1)?.wallSeconds ?? 0;
    this.#sampledStep = this.session.stepNumber;
    this.#savedStep = this.#sampledStep > 0 ? this.#sampledStep : null;
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
      await this.#options.turns.take(() => this.#step());
      this.#report(true);
      await this.#finishOr("paused");
    });
  }

  get #stepsLeft(): number {
    return this.totalSteps - this.session.stepNumber;
  }

  async #train(): Promise<void> {
    await this.#guard(async () => {
      this.#enter("training");
      while (this.#wanted === "run" && (this.#stepsLeft > 0 || this.#evaluationDue() || this.#sampleDue())) {
        await this.#options.turns.take(() => this.#advance());
        await breathe();
      }
      this.#report(true);
      await this.#finishOr(this.#wanted === "stop" ? "stopped" : "paused");
    });
  }

  async #finishOr(otherwise: RunState): Promise<void> {
    const finished = this.#stepsLeft === 0 && !this.#evaluationDue();
    await this.#save();
    this.#enter(finished ? "finished" : otherwise);
  }

  async #guard(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#report(true);
      this.#options.emit({ event: "error", message: messageOf(error) });
      this.#enter("failed");
    }
  }

  /** The next thing: an evaluation that is due, a sample that is due, or a step. */
  async #advance(): Promise<void> {
    const begun = performance.now();
    if (this.#evaluationDue()) await this.#evaluate();
    else if (this.#sampleDue()) await this.#sample();
    else this.#step();
    this.#wallSeconds += (performance.now() - begun) / 1000;
    if (!this.#evaluationDue() && this.#autosaveDue()) await this.#save();
  }

  #step(): void {
    const { info } = this.#options;
    const begun = performance.now();
    const { step, loss, lr, gradNorm, finite } = this.session.step();
    if (!finite) {
      const what = Number.isFinite(loss) ? `gradient norm is ${gradNorm}` : `loss is ${loss}`;
      throw new TabgptError(
        `step ${step}: the ${what}, so training stopped. That step changed no parameter, and ${this.#whatIsKept}. ` +
          `Start again with a lower learning rate or a longer warm-up.`,
      );
    }
    const seconds = (performance.now() - begun) / 1000;
    const perStep = (info.train.batch_size as number) * (info.train.grad_accum as number) * (info.model.ctx as number);
    const point = { step, loss, lr, gradNorm, tokensPerSecond: perStep / seconds };
    this.lines.push({ ...point, wallSeconds: this.#wallSeconds + seconds });
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
    while (this.session.evaluateNext()) {
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
    if (await this.#options.save(this)) this.#savedStep = this.session.stepNumber;
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
