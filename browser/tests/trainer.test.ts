import { expect, test, vi } from "vitest";
import { Turns } from "../src/worker/turns.ts";
import { PATIENCE, run } from "./fake_run.ts";

vi.setConfig({ testTimeout: 30_000 });

test("a run evaluates on the way with seeded batches, and at its end on the whole split", async () => {
  const { trainer, session, events, saves, state } = run({ values: { eval_batches: 7 } });
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
  const { trainer, events, state } = run({ values: { sample_interval: 5 } });
  trainer.start();
  await state("finished");
  const done = events.filter((e) => e.event === "sample" && e.done);
  expect(done).toMatchObject([{ live: true, step: 5, prompt: "a", text: "bbbbb" }, { step: 10 }]);
});

test("a prompt that the text does not know costs the prompt, not the samples", async () => {
  const { trainer, events, state } = run({ values: { sample_interval: 5 }, prompt: "ROMEO:" });
  trainer.start();
  await state("finished");
  const done = events.filter((e) => e.event === "sample" && e.done);
  expect(done).toMatchObject([{ step: 5, prompt: "", text: "bbbbb" }, { step: 10 }]);
  const notices = events.filter((e) => e.event === "notice");
  expect(notices).toMatchObject([{ message: expect.stringMatching(/without the prompt.*no 'R'/) as string }]);
});

test("what was not saved is not called saved", async () => {
  const { trainer, session, events, state } = run({ values: { steps: 1e6, eval_interval: 1e6 }, saving: false });
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(5), PATIENCE);
  await trainer.pause();
  session.bad = session.stepNumber + 1;
  trainer.start();
  await state("failed");
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringContaining("had not been saved yet") as string });
});

test("pause saves and holds; one step makes one; resume goes on", async () => {
  const { trainer, session, saves, state } = run({ values: { steps: 1e6, eval_interval: 1e6 } });
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(5), PATIENCE);
  await trainer.pause();
  const held = session.stepNumber;
  expect(trainer.state).toBe("paused");
  expect(saves).toEqual([held]);
  await trainer.step();
  expect(session.stepNumber).toBe(held + 1);
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(held + 5), PATIENCE);
  await trainer.stop();
  await state("stopped");
});

test("a step that is not finite stops the run, saves nothing, and says what is safe", async () => {
  const { trainer, session, events, saves, state } = run();
  session.bad = 3;
  trainer.start();
  await state("failed");
  expect(saves).toEqual([]);
  expect(trainer.lines.map(({ step }) => step)).toEqual([1, 2]);
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringMatching(/^step 3: the loss is NaN.*this run had not been saved yet/) as string });
});

test("an evaluation that a stop cut off is made up for on resume", async () => {
  const line = { step: 4, loss: 1, lr: 1, gradNorm: 1, tokensPerSecond: 1, wallSeconds: 3 };
  const { trainer, session, state } = run({ values: { eval_batches: 7 }, lines: [line], begin: 4 });
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
