import { expect, test } from "vitest";
import { firstDifference, Timed } from "../src/evolution/measure.ts";
import { pairRatio, reasons, type Recorded, STAGES } from "../src/evolution/stages.ts";
import { BUILDS } from "../src/core/builds.ts";
import type { RunSession } from "../src/worker/session.ts";

/** Gives these losses, then the last one for ever, and counts the steps that were asked for at once. */
class Scripted {
  stepsUnderWay = 2;
  asked = 0;
  most = 0;
  #open = 0;
  readonly #losses: number[];

  constructor(losses: number[]) {
    this.#losses = losses;
  }

  async step() {
    this.most = Math.max(this.most, ++this.#open);
    const loss = this.#losses[Math.min(this.asked++, this.#losses.length - 1)]!;
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.#open--;
    return { step: this.asked, loss, lr: 0, gradNorm: 0, finite: true };
  }
}
const session = (scripted: Scripted): RunSession => scripted as unknown as RunSession;

test("the largest difference of the first losses counts", async () => {
  expect(await firstDifference(session(new Scripted([4, 3, 2])), [4, 3.003, 2])).toBeCloseTo(0.001, 5);
  expect(await firstDifference(session(new Scripted([4, 3, 2])), [4, 3, 2])).toBe(0);
});

test("a loss that is no number is infinitely wrong", async () => {
  expect(await firstDifference(session(new Scripted([4, NaN, 2])), [4, 3, 2])).toBe(Infinity);
});

test("steps are timed with as many under way as the session allows", async () => {
  const scripted = new Scripted([1]);
  const timed = new Timed(session(scripted));
  await timed.warmUp();
  const before = scripted.asked;
  const seconds = await timed.sample();
  expect(scripted.most).toBe(2);
  expect(scripted.asked - before).toBeGreaterThan(1);
  expect(seconds).toBeGreaterThan(0.001);
});

test("ratios are of pairs, over the rounds that both have", () => {
  expect(pairRatio([1, 2, 1], [2, 2, 8])).toBe(2);
  expect(pairRatio([1], [])).toBeNull();
});

test("a gain below its least is given its reason, or none", () => {
  const gain = { over: "simd", least: 1.1, median: 1.05 };
  const row = { gains: [{ ...gain, why: "" }, { ...gain, why: "checked addresses" }, { ...gain, why: null }] };
  expect(reasons(row as Recorded)).toEqual(["checked addresses", "1.05 × of simd, below 1.1 ×, unexplained."]);
  expect(reasons(null)).toEqual([]);
});

test("every stage of the tab names a build that there is", () => {
  const tab = STAGES.filter(({ host }) => host === "tab");
  expect(tab.length).toBeGreaterThan(0);
  for (const { build } of tab) expect(BUILDS.map(({ name }) => name)).toContain(build);
});
