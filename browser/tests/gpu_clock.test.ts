import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GpuClock, wallQuantum } from "../src/gpu/clock.ts";
import { GpuDevice } from "../src/gpu/device.ts";
import { Executor } from "../src/gpu/executor.ts";
import { Pipelines } from "../src/gpu/pipelines.ts";
import type { GpuPlan, PlannedTensor } from "../src/gpu/plan.ts";
import { Sampler } from "../src/sweep/sampler.ts";
import { dawnAdapter } from "./dawn.ts";

vi.setConfig({ testTimeout: 60_000 });

const COUNT = 4096;
const SOURCES = new Map([
  [
    "turn",
    `// x = one turn of a slow loop.
struct Params { turns: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var value = x[id.x];
  for (var i = 0u; i < p.turns; i++) { value = value * 0.999 + 1.0; }
  x[id.x] = value;
}`,
  ],
]);

/** One dispatch, and a copy behind it, so that every call is a pass of its own. */
const PLAN: GpuPlan = {
  schema: 1,
  buffers: [
    ...["x", "copy"].map((name) => ({ name, role: "activations", bytes: 4 * COUNT, usage: "storage" })),
    { name: "words", role: "workspace", bytes: 256, usage: "uniform storage" },
  ],
  tensors: { x: { buffer: 0, offset: 0, shape: [COUNT], type: "f32" } as PlannedTensor },
  pipelines: [{ kernel: "turn", constants: {}, bindings: ["uniform", "read_write"] }],
  words: { buffer: 2, offset: 0, data: [2000] },
  programs: {
    run: [
      { label: "turn", pipeline: 0, bindings: [[2, 0, 4], [0, 0, 4 * COUNT]], grid: [COUNT / 64, 1, 1] },
      { copy: [0, 0, 1, 0, 4 * COUNT] },
    ],
  },
  batch: [1, 1],
  micro_batches: 1,
};
const RULES = { warm_up_s: 0.01, samples: 3, sample_s: 0.005, least_sample_s: 0.001, least_quanta: 20 };

let device: GpuDevice;
let executor: Executor;

beforeEach(async () => {
  device = await GpuDevice.open(await dawnAdapter());
  executor = await Executor.create({ device, pipelines: new Pipelines(device), sources: SOURCES, plan: PLAN });
});
afterEach(() => device.destroy());

test("timestamps span every call of a submit, and lie within the wall clock's time", async () => {
  const clock = await GpuClock.create(device);
  expect(clock.hasStamps).toBe(true);
  await clock.time((stamps) => executor.submitTimed("run", 1, stamps));
  const times = [];
  for (const calls of [1, 16]) times.push(await clock.time((stamps) => executor.submitTimed("run", calls, stamps)));
  const [one, many] = times as [(typeof times)[0], (typeof times)[0]];
  expect(many.gpu! / one.gpu!).toBeGreaterThan(4);
  for (const { gpu, wall } of times) expect(gpu!).toBeLessThanOrEqual(wall);
  expect(clock.quantum!).toBeGreaterThan(0);
  clock.destroy();
  device.check();
});

test("a device without timestamps is timed by the wall clock alone", async () => {
  vi.spyOn(device.handle, "features", "get").mockReturnValue(new Set() as unknown as GPUSupportedFeatures);
  const clock = await GpuClock.create(device);
  const { gpu, wall } = await clock.time((stamps) => executor.submitTimed("run", 1, stamps));
  expect(clock.quantum).toBeNull();
  expect(gpu).toBeNull();
  expect(wall).toBeGreaterThan(0);
});

test("a sample lasts as long as its clock needs, and the sampler leaves nothing behind", async () => {
  const before = { ...device.live };
  const clock = await GpuClock.create(device);
  const sampler = new Sampler(executor, clock, RULES, wallQuantum());
  await sampler.warmUp();
  for (let i = 0; i < RULES.samples; i++) await sampler.sample();
  expect(sampler.gpu).toHaveLength(RULES.samples);
  expect(sampler.wall).toHaveLength(RULES.samples);
  for (const seconds of sampler.gpu) expect(seconds * sampler.calls).toBeGreaterThanOrEqual(RULES.least_sample_s);
  clock.destroy();
  expect(device.live).toEqual(before);
});
