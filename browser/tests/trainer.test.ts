import { expect, test, vi } from "vitest";
import type { Session } from "../src/core/index.ts";
import { modelConfig, presetValues, runConfig, trainConfig } from "../src/presets.ts";
import { tokenizerFrom } from "../src/tokenizer.ts";
import type { MetricLine } from "../src/worker/metrics.ts";
import type { RunEvent } from "../src/worker/protocol.ts";
import { Trainer } from "../src/worker/trainer.ts";
import { Turns } from "../src/worker/turns.ts";

/** A core that does nothing but count; step `bad` is not finite. */
class FakeSession {
  stepNumber = 0;
  evaluations: number[] = [];
  bad = Infinity;
  #left = 0;

  step() {
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

function run(overrides: Record<string, number>, lines: MetricLine[] = [], begin = 0, prompt = "a", saving = true) {
  const values = { ...presetValues("tiny"), steps: 10, eval_interval: 4, sample_interval: 0, autosave_seconds: 0, ...overrides };
  const session = new FakeSession();
  session.stepNumber = begin;
  const events: RunEvent[] = [];
  const saves: number[] = [];
  const trainer = new Trainer({
    session: session as unknown as Session,
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
    turns: new Turns(),
  });
  const state = (name: string) => vi.waitFor(() => expect(trainer.state).toBe(name));
  return { trainer, session, events, saves, state };
}

test("a run evaluates on the way with seeded batches, and at its end on the whole split", async () => {
  const { trainer, session, events, saves, state } = run({ eval_batches: 7 });
  trainer.start();
  await state("finished");
  expect(session.evaluations).toEqual([7, 7, 0]);
  expect(trainer.lines.filter(({ valLoss }) => valLoss !== undefined).map(({ step }) => step)).toEqual([4, 8, 10]);
  expect(events.flatMap((e) => (e.event === "evaluated" ? [e.point] : [])).at(-1)).toEqual({ step: 10, valLoss: 2.5, whole: true });
  expect(events.flatMap((e) => (e.event === "metrics" ? e.points : [])).map(({ step }) => step)).toEqual(
    Array.from({ length: 10 }, (_, i) => i + 1),
  );
  expect(saves).toEqual([10]);
});

test("live samples come at their interval", async () => {
  const { trainer, events, state } = run({ sample_interval: 5 });
  trainer.start();
  await state("finished");
  const done = events.filter((e) => e.event === "sample" && e.done);
  expect(done).toMatchObject([{ live: true, step: 5, prompt: "a", text: "bbbbb" }, { step: 10 }]);
});

test("a prompt that the text does not know costs the prompt, not the samples", async () => {
  const { trainer, events, state } = run({ sample_interval: 5 }, [], 0, "ROMEO:");
  trainer.start();
  await state("finished");
  const done = events.filter((e) => e.event === "sample" && e.done);
  expect(done).toMatchObject([{ step: 5, prompt: "", text: "bbbbb" }, { step: 10 }]);
  const notices = events.filter((e) => e.event === "notice");
  expect(notices).toMatchObject([{ message: expect.stringMatching(/without the prompt.*no 'R'/) as string }]);
});

test("what was not saved is not called saved", async () => {
  const { trainer, session, events, state } = run({ steps: 1e6, eval_interval: 1e6 }, [], 0, "a", false);
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(5));
  await trainer.pause();
  session.bad = session.stepNumber + 1;
  trainer.start();
  await state("failed");
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringContaining("had not been saved yet") as string });
});

test("pause saves and holds; one step makes one; resume goes on", async () => {
  const { trainer, session, saves, state } = run({ steps: 1e6, eval_interval: 1e6 });
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(5));
  await trainer.pause();
  const held = session.stepNumber;
  expect(trainer.state).toBe("paused");
  expect(saves).toEqual([held]);
  await trainer.step();
  expect(session.stepNumber).toBe(held + 1);
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(held + 5));
  await trainer.stop();
  await state("stopped");
});

test("a step that is not finite stops the run, saves nothing, and says what is safe", async () => {
  const { trainer, session, events, saves, state } = run({});
  session.bad = 3;
  trainer.start();
  await state("failed");
  expect(saves).toEqual([]);
  expect(trainer.lines.map(({ step }) => step)).toEqual([1, 2]);
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringMatching(/^step 3: the loss is NaN.*this run had not been saved yet/) as string });
});

test("an evaluation that a stop cut off is made up for on resume", async () => {
  const line = { step: 4, loss: 1, lr: 1, gradNorm: 1, tokensPerSecond: 1, wallSeconds: 3 };
  const { trainer, session, state } = run({ eval_batches: 7 }, [line], 4);
  trainer.start();
  await state("finished");
  expect(session.evaluations).toEqual([7, 7, 0]);
  expect(trainer.lines[0]!.valLoss).toBe(2.5);
  expect(trainer.lines[1]!.wallSeconds).toBeGreaterThanOrEqual(3);
});

test("turns are taken in order, and one that fails does not end the others", async () => {
  const turns = new Turns();
  const order: number[] = [];
  const first = turns.take(() => {
    order.push(1);
    throw new Error("no");
  });
  const second = turns.take(() => order.push(2));
  await expect(first).rejects.toThrow("no");
  await second;
  expect(order).toEqual([1, 2]);
});
