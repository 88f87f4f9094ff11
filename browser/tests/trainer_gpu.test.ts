import { expect, test, vi } from "vitest";
import type { StepMetrics } from "../src/core/index.ts";
import { DeviceLostError } from "../src/gpu/errors.ts";
import type { MetricLine } from "../src/worker/metrics.ts";
import type { RunSession } from "../src/worker/session.ts";
import { FakeSession, PATIENCE, run, type RunOptions } from "./fake_run.ts";

vi.setConfig({ testTimeout: 30_000 });

/** Answers a step after the next one was asked for; is lost once step `lostAt` has been asked for. */
class FakeGpu extends FakeSession {
  override stepsUnderWay = 2;
  lostAt = Infinity;
  mostUnderWay = 0;
  #underWay = 0;

  override async step(): Promise<StepMetrics> {
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.#underWay);
    const answer = await super.step();
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.#underWay--;
    if (answer.step >= this.lostAt) throw new DeviceLostError("unknown", "The GPU process crashed.");
    return answer;
  }
}

/** A run on a GPU that is lost at step 7; the state in memory is that of step 5. */
function lossyRun(options: RunOptions = {}, next = new FakeGpu()) {
  const session = new FakeGpu();
  session.lostAt = 7;
  const restore = async (): Promise<RunSession> => {
    next.stepNumber = 5;
    return next as unknown as RunSession;
  };
  return { next, ...run({ session, restore, ...options }) };
}

const numbers = (lines: MetricLine[]): number[] => lines.map(({ step }) => step);
const ALL = Array.from({ length: 10 }, (_, i) => i + 1);

test("a GPU has its next step before the last one's loss is read, and every line comes in order", async () => {
  const session = new FakeGpu();
  const { trainer, events, state, saves } = run({ session });
  trainer.start();
  await state("finished");
  expect(session.mostUnderWay).toBe(2);
  expect(numbers(trainer.lines)).toEqual(ALL);
  expect(trainer.lines.filter(({ valLoss }) => valLoss !== undefined).map(({ step }) => step)).toEqual([4, 8, 10]);
  expect(saves).toEqual([10]);
  expect(events.find((e) => e.event === "error")).toBeUndefined();
});

test("a pause takes in what is under way", async () => {
  const session = new FakeGpu();
  const { trainer, saves } = run({ session, values: { steps: 1e6, eval_interval: 1e6 } });
  trainer.start();
  await vi.waitFor(() => expect(session.stepNumber).toBeGreaterThan(5), PATIENCE);
  await trainer.pause();
  expect(trainer.lines.at(-1)!.step).toBe(session.stepNumber);
  expect(saves).toEqual([session.stepNumber]);
});

test("a run whose GPU is lost goes on from its last state in memory", async () => {
  const { trainer, next, events, state } = lossyRun();
  trainer.start();
  await state("finished");
  expect(next.stepNumber).toBe(10);
  expect(numbers(trainer.lines)).toEqual(ALL);
  const said = events.flatMap((e) => (e.event === "notice" ? [e.message] : []));
  expect(said).toEqual([expect.stringMatching(/the GPU was lost \(The GPU process crashed\).*goes on from step 5, its last state in memory, on a new device/)]);
  const history = events.find((e) => e.event === "history");
  expect(history?.points.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
});

test("a run whose GPU is lost for good stops, saves nothing, and says what is safe", async () => {
  const restore = (): Promise<RunSession> => Promise.reject(new Error("no GPU"));
  const { trainer, events, saves, state } = lossyRun({ restore });
  trainer.start();
  await state("failed");
  expect(saves).toEqual([]);
  expect(events.find((e) => e.event === "error")).toMatchObject({
    message: expect.stringMatching(/the GPU was lost.*this run had not been saved yet. No new device could be had: no GPU\. Resume it on the CPU/) as string,
  });
});

test("a run that stands still gets a new device when a sample meets the loss; one that trains sees to it itself", async () => {
  const next = new FakeGpu();
  next.stepNumber = 10;
  const lost = new DeviceLostError("unknown", "The GPU process crashed.");
  const { trainer, events, state } = run({ session: new FakeGpu(), restore: async () => next as unknown as RunSession });
  trainer.start();
  await expect(trainer.recover(lost)).rejects.toBe(lost);
  await state("finished");
  await trainer.pause();
  await trainer.recover(lost);
  expect(trainer.session).toBe(next);
  expect(numbers(trainer.lines)).toEqual(ALL);
  expect(events.filter((e) => e.event === "notice")).toHaveLength(1);
  expect(trainer.state).toBe("finished");
});

test("a GPU that is lost again and again is given up", async () => {
  const next = new FakeGpu();
  next.lostAt = 6;
  const { trainer, events, state } = lossyRun({}, next);
  trainer.start();
  await state("failed");
  expect(events.filter((e) => e.event === "notice")).toHaveLength(3);
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringContaining("lost 3 times from there") as string });
});

test("a step that is not finite ends the run even where a save came upon it", async () => {
  const session = new FakeGpu();
  session.bad = 3;
  const { trainer, events, state } = run({ session, values: { eval_interval: 1e6 } });
  trainer.start();
  await trainer.settle().catch(() => undefined);
  await state("failed");
  expect(events.find((e) => e.event === "error")).toMatchObject({ message: expect.stringMatching(/^step 3: the loss is NaN/) as string });
  expect(numbers(trainer.lines)).toEqual([1, 2]);
});
