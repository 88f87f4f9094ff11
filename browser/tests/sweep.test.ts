import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { BUILDS, Core } from "../src/core/index.ts";
import { obstacleSentence } from "../src/gpu/adapter.ts";
import { Gpu } from "../src/gpu/gpu.ts";
import { gpuVariants, type Variant } from "../src/gpu/handle.ts";
import { RULES, type Rules, type Selection } from "../src/sweep/definition.ts";
import type { Row, SweepEvent } from "../src/sweep/protocol.ts";
import { runSweep } from "../src/sweep/run.ts";
import { dawn } from "./dawn.ts";

vi.setConfig({ testTimeout: 120_000 });

const FOLDER = new URL("../../shaders/", import.meta.url);
const SHADERS = new Map(readdirSync(FOLDER).map((file) => [file.replace(".wgsl", ""), readFileSync(new URL(file, FOLDER), "utf8")]));
const SMALL: Selection = { groups: ["cube", "attention"], most: 128, experimental: true };
const timing = { ...RULES.timing, warm_up_s: 0.005, samples: 3, sample_s: 0.002 };
/** Few samples, and no step. */
const QUICK: Rules = { timing, bounds: { ...RULES.bounds, least_samples: 2, software_step_flops: 0 } };

let core: Core;
let variants: Variant[];

async function sweep(options: { shaders?: typeof SHADERS; selection?: Selection; rules?: Rules; stopAfter?: number } = {}) {
  const gpu = await Gpu.find(dawn, options.shaders ?? SHADERS);
  if (typeof gpu === "string") throw new Error(obstacleSentence(gpu));
  const open = await gpu.open();
  const events: SweepEvent[] = [];
  const { selection = SMALL, rules = QUICK, stopAfter = Infinity } = options;
  const isStopped = (): boolean => events.filter(({ event }) => event === "rows").length >= stopAfter;
  await runSweep({ open, core, selection, rules, isStopped, emit: (event) => events.push(event) });
  const rows = events.flatMap((event) => (event.event === "rows" ? event.rows : []));
  const live = { ...open.device.live };
  open.device.check();
  gpu.destroy();
  return { events, rows, live };
}

const ofCase = (rows: Row[], begin: string): Row[] => rows.filter((row) => row.case.startsWith(begin));

beforeAll(async () => {
  const baseUrl = new URL("../public/wasm/", import.meta.url).href;
  const build = BUILDS.find(({ name }) => name === "scalar")!;
  core = await Core.load({ build, baseUrl, bytes: 64 * 2 ** 20, maximum: 2 ** 30, threads: 1 });
  variants = gpuVariants(core);
});
afterAll(() => vi.restoreAllMocks());

test("every kernel that the device runs is timed and right, and nothing is left on the device", async () => {
  const { rows, events, live } = await sweep();
  const products = ofCase(rows, "matmul NN 128 128 128");
  expect(products.map(({ variant }) => variant)).toEqual(variants.filter(({ family }) => family === "matmul").map(({ name }) => name));
  expect(ofCase(rows, "attention")).toHaveLength(2 * variants.filter(({ family }) => family === "attention").length);
  for (const row of rows) {
    expect(row.skipped).toMatch(/^$|this GPU has no /);
    if (row.skipped) continue;
    expect(row).toMatchObject({ ok: true, software: true });
    expect(row.error!).toBeGreaterThan(0);
    expect(row.gpu_s.length).toBe(row.wall_s.length);
    expect(row.wall_s.length).toBeGreaterThanOrEqual(2);
    expect(row.flops).toBeGreaterThan(1e6);
  }
  expect(events.at(-1)).toMatchObject({ event: "done", stopped: false, clock: { gpu: "timestamp-query" } });
  expect(live).toMatchObject({ buffer: 0, bindGroup: 0 });
});

test("a wrong kernel gets no time, the others do", async () => {
  const right = SHADERS.get("matmul_naive")!;
  const wrong = right.replace("var total = 0.0;", "var total = 0.1;");
  expect(wrong).not.toBe(right);
  const { rows } = await sweep({ shaders: new Map([...SHADERS, ["matmul_naive", wrong]]), selection: { ...SMALL, groups: ["cube"] } });
  const naive = rows.find(({ variant }) => variant === "naive")!;
  expect(naive).toMatchObject({ ok: false, skipped: "", gpu_s: [], wall_s: [] });
  expect(naive.error!).toBeGreaterThan(1);
  expect(rows.find(({ variant }) => variant === "tiled")).toMatchObject({ ok: true });
});

test("a sweep that is stopped says so, and gives what it had", async () => {
  const { rows, events } = await sweep({ stopAfter: 1, selection: { ...SMALL, most: 4096 } });
  expect(new Set(rows.map((row) => row.case)).size).toBe(1);
  expect(events.at(-1)).toMatchObject({ event: "done", stopped: true });
});

test("what would take too long is skipped with the reason", async () => {
  const bounds = { ...QUICK.bounds, software_flops: 5e6, software_call_s: 1e-9 };
  const { rows } = await sweep({ rules: { timing, bounds }, selection: { groups: ["cube", "step"], most: 256, experimental: false } });
  const [first, larger] = [ofCase(rows, "matmul NN 128"), ofCase(rows, "matmul NN 256")];
  expect(first.every(({ skipped }) => skipped === "")).toBe(true);
  expect(larger.map(({ skipped }) => skipped)).toEqual(larger.map(() => "not on a software adapter: 0.034 Gflop, at most 0.0050 there"));
  const steps = rows.filter(({ kind }) => kind === "step");
  expect(steps.length).toBeGreaterThan(5);
  for (const { skipped } of steps) expect(skipped).toMatch(/^not on a software adapter: .* Gflop, at most/);
  const slow = await sweep({ rules: { timing, bounds: { ...bounds, software_flops: 1e12 } }, selection: { groups: ["cube"], most: 256, experimental: false } });
  for (const { skipped } of ofCase(slow.rows, "matmul NN 256")) expect(skipped).toMatch(/^one call would take about .* s, at most 1e-9 s$/);
});
