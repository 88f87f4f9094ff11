/** @file A run whose model does nothing but count, for what the trainer does with a session. */
import { expect, vi } from "vitest";
import type { StepMetrics } from "../src/core/index.ts";
import { modelConfig, presetValues, runConfig, trainConfig } from "../src/presets.ts";
import { tokenizerFrom } from "../src/tokenizer.ts";
import type { MetricLine } from "../src/worker/metrics.ts";
import type { RunEvent } from "../src/worker/protocol.ts";
import type { Awaitable, RunSession } from "../src/worker/session.ts";
import { Trainer } from "../src/worker/trainer.ts";
import { Turns } from "../src/worker/turns.ts";

/** A core that does nothing but count; step `bad` is not finite. */
export class FakeSession {
  stepNumber = 0;
  stepsUnderWay = 1;
  evaluations: number[] = [];
  bad = Infinity;
  #left = 0;

  step(): Awaitable<StepMetrics> {
    this.stepNumber++;
    const finite = this.stepNumber !== this.bad;
    return { step: this.stepNumber, loss: finite ? 4 / this.stepNumber : NaN, lr: 1e-3, gradNorm: 1, finite };
  }
  evaluateBegin(_split: string, batches: number) {
    this.evaluations.push(batches);
    this.#left = 3;
  }
  evaluateNext() {
    return --this.#left > 0;
  }
  metric() {
    return 2.5;
  }
  generateBegin() {}
  generateNext() {
    return 1;
  }
}

/** On a machine that is busy with other things. */
export const PATIENCE = { timeout: 20_000 };

export interface RunOptions {
  /** Of the recipe. */
  values?: Record<string, number>;
  lines?: MetricLine[];
  begin?: number;
  prompt?: string;
  /** False: every save fails. */
  saving?: boolean;
  session?: FakeSession;
  restore?: () => Promise<RunSession>;
}

export function run(options: RunOptions = {}) {
  const { lines = [], begin = 0, prompt = "a", saving = true, session = new FakeSession() } = options;
  const values = { ...presetValues("tiny"), steps: 10, eval_interval: 4, sample_interval: 0, autosave_seconds: 0, ...options.values };
  session.stepNumber = begin;
  const events: RunEvent[] = [];
  const saves: number[] = [];
  const trainer = new Trainer({
    session: session as unknown as RunSession,
    tokenizer: tokenizerFrom({ kind: "char", vocab: "ab" }),
    info: {
      model: modelConfig(values, 2),
      train: trainConfig(values),
      run: runConfig(values),
      tokenizer: { kind: "char", vocab: "ab" },
      corpus: null,
      step: begin,
    },
    lines,
    live: { prompt, maxNewTokens: 5, stop: "", temperature: 1, topK: 0, topP: 1, seed: 1 },
    emit: (event) => events.push(event),
    save: async (t) => saves.push(t.info.step) > 0 && saving,
    restore: options.restore ?? (() => Promise.reject(new Error("there is none"))),
    turns: new Turns(),
  });
  const state = (name: string) => vi.waitFor(() => expect(trainer.state).toBe(name), PATIENCE);
  return { trainer, session, events, saves, state };
}
