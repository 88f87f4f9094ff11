import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GpuDevice } from "../src/gpu/device.ts";
import { DeviceLostError, GpuValidationError, OutOfMemoryError } from "../src/gpu/errors.ts";
import { Executor } from "../src/gpu/executor.ts";
import { Pipelines } from "../src/gpu/pipelines.ts";
import type { Dispatch, Entry, GpuPlan, PlannedPipeline, PlannedTensor, Range } from "../src/gpu/plan.ts";
import { RING_SLOTS } from "../src/gpu/readback.ts";
import { readKernel, type ShaderSources } from "../src/gpu/shaders.ts";
import { dawnAdapter } from "./dawn.ts";

// Compiling and waiting take a while where the GPU is a program on a busy CPU.
vi.setConfig({ testTimeout: 60_000 });

const SOURCES = new Map([
  ["twice", "fn twice(x: f32) -> f32 { return x + x; }"],
  [
    "scale",
    `// out = factor x, or twice that.
//! include twice.wgsl
struct Params { count: u32, factor: f32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
override TWICE: u32 = 0u;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.count) {
    let y = p.factor * x[id.x];
    out[id.x] = select(y, twice(y), TWICE == 1u);
  }
}`,
  ],
]);
const COUNT = 100;
const BYTES = 4 * COUNT;

/** x -> y = 3 x -> z = 2 * 3 y, then a copy of z, and x cleared. */
function plan(programs: (keyof typeof PROGRAMS)[] = ["forward", "forget"]): GpuPlan {
  const [three] = new Uint32Array(new Float32Array([3]).buffer);
  const tensor = (buffer: number, shape = [COUNT]): PlannedTensor => ({ buffer, offset: 0, shape, type: "f32" });
  const pipeline = (TWICE: number): PlannedPipeline => ({ kernel: "scale", constants: { TWICE }, bindings: ["uniform", "read", "read_write"] });
  return {
    schema: 1,
    buffers: [
      ...["x", "y", "z", "copy"].map((name) => ({ name, role: "activations", bytes: BYTES, usage: "storage" })),
      { name: "words", role: "workspace", bytes: 512, usage: "uniform storage" },
    ],
    tensors: { x: tensor(0), y: tensor(1), z: tensor(2), copy: tensor(3), head: tensor(1, [2]) },
    pipelines: [pipeline(0), pipeline(1)],
    words: { buffer: WORDS, offset: 0, data: [COUNT, three!] },
    programs: Object.fromEntries(programs.map((name) => [name, PROGRAMS[name]])),
    batch: [1, COUNT],
    micro_batches: 1,
  };
}

const WORDS = 4;
const scale = (pipeline: number, from: number, to: number): Dispatch => ({
  label: `${from} to ${to}`,
  pipeline,
  bindings: [[WORDS, 0, 8], [from, 0, BYTES], [to, 0, BYTES]],
  grid: [2, 1, 1],
});
const PROGRAMS = {
  forward: [scale(0, 0, 1), scale(1, 1, 2), { copy: [2, 0, 3, 0, BYTES] }] as Entry[],
  forget: [{ clear: [0, 0, BYTES] }] as Entry[],
  alias: [scale(0, 0, 0)] as Entry[],
  beyond: [{ copy: [0, 0, 1, 4, BYTES] }] as Entry[],
};

const X = Float32Array.from({ length: COUNT }, (_, i) => i - 50);
const times = (factor: number): number[] => Array.from(X, (x) => factor * x);

let device: GpuDevice;
let pipelines: Pipelines;

beforeEach(async () => {
  device = await GpuDevice.open(await dawnAdapter());
  pipelines = new Pipelines(device);
});
afterEach(() => device.destroy());

const make = (planned = plan(), sources: ShaderSources = SOURCES): Promise<Executor> => Executor.create({ device, pipelines, sources, plan: planned });

const run = (executor: Executor, program: string): Promise<void> => executor.watch(program, () => executor.submit(program));

async function floats(executor: Executor, name: string): Promise<number[]> {
  return Array.from(new Float32Array(await executor.read(name)));
}

test("a plan runs: dispatches, constants, includes, copies and clears", async () => {
  const ready: string[] = [];
  const onPipeline = (done: number, total: number): number => ready.push(`${done}/${total}`);
  const executor = await Executor.create({ device, pipelines, sources: SOURCES, plan: plan(), onPipeline });
  expect(ready).toEqual(["1/2", "2/2"]);
  executor.write("x", X);
  await run(executor, "forward");
  expect(await floats(executor, "y")).toEqual(times(3));
  expect(await floats(executor, "copy")).toEqual(times(18));
  await run(executor, "forget");
  expect(await floats(executor, "x")).toEqual(Array.from(X, () => 0));
  device.check();
});

test("another batch's shape stands before the plan's own until it is put away", async () => {
  const executor = await make();
  const made = { ...device.live };
  const half = { ...scale(0, 0, 1), bindings: [[WORDS, 256, 8], [0, 0, BYTES], [1, 0, BYTES]] as Range[] };
  const tensors = { y: { buffer: 1, offset: 0, shape: [COUNT / 2], type: "f32" as const } };
  executor.write("x", X);
  await executor.useShape({ tensors, words: { buffer: WORDS, offset: 256, data: [COUNT / 2, 0x40000000] }, programs: { forward: [half] } });
  await run(executor, "forward");
  expect(await floats(executor, "y")).toEqual(times(2).slice(0, COUNT / 2));
  executor.useOwnShape();
  expect(await floats(executor, "y")).toEqual(times(2).map((y, i) => (i < COUNT / 2 ? y : 0)));
  await run(executor, "forward");
  expect(await floats(executor, "y")).toEqual(times(3));
  expect(device.live).toEqual(made);
});

test("no object is made after creation, and all are given back", async () => {
  const counted: unknown[] = [];
  for (let restart = 0; restart < 3; restart++) {
    const executor = await make();
    const made = { ...device.live };
    const late: Promise<unknown>[] = [];
    for (let step = 0; step < 60; step++) {
      executor.write("x", X);
      await run(executor, "forward");
      late.push(executor.readLate(["head"]));
      if (late.length === RING_SLOTS) await late.shift();
    }
    await Promise.all(late);
    expect(device.live).toEqual(made);
    executor.destroy();
    counted.push({ ...device.live });
  }
  // What stays is the cache of compiled pipelines, which does not grow.
  expect(counted).toEqual(Array(3).fill({ buffer: 0, pipeline: 2, bindGroup: 0, layout: 1, module: 1 }));
});

test("late reads see their own step, several at once", async () => {
  const executor = await make();
  const reads: Promise<ArrayBuffer[]>[] = [];
  for (let step = 1; step <= RING_SLOTS; step++) {
    executor.write("x", Float32Array.from(X, () => step));
    await run(executor, "forward");
    reads.push(executor.readLate(["head"]));
  }
  await expect(executor.readLate(["head"])).rejects.toThrow("the ring has");
  const heads = (await Promise.all(reads)).map(([head]) => Array.from(new Float32Array(head!)));
  expect(heads).toEqual([3, 6, 9, 12].map((value) => [value, value]));
});

test("a shader whose access mode was changed is named before anything is created", async () => {
  const changed = new Map([...SOURCES, ["scale", SOURCES.get("scale")!.replace("<storage, read> x", "<storage, read_write> x")]]);
  await expect(make(plan(), changed)).rejects.toThrow("scale.wgsl: binding 1 (x) is read_write in the shader, read in the plan");
  expect(device.live).toEqual({ buffer: 0, pipeline: 0, bindGroup: 0, layout: 0, module: 0 });
});

test.each([
  ["a binding out of order", "@binding(1)", "@binding(3)", "binding 3 (x) stands where 1 is due"],
  ["an odd declaration", "var<storage, read> x", "var<storage,read> x", "1 of 3 bindings are not in canonical form"],
  ["a missing override", "override TWICE: u32 = 0u;", "const TWICE = 0u;", 'no override "TWICE"'],
  ["a missing include", "include twice.wgsl", "include thrice.wgsl", 'no shader "thrice.wgsl"'],
  ["an unknown extension", "//! include", "//! enable chance\n//! include", 'enables "chance", not one of f16, subgroups'],
  ["a syntax error", "let y =", "let y :=", "scale.wgsl"],
])("a shader with %s is refused by name", async (_what, from, to, message) => {
  const changed = new Map([...SOURCES, ["scale", SOURCES.get("scale")!.replace(from, to)]]);
  await expect(make(plan(), changed)).rejects.toThrow(message);
});

test("an extension is enabled before all else, and its feature is named", () => {
  const text = `// Half.\n//! enable f16\n${SOURCES.get("scale")}`;
  const { code, features } = readKernel("half", new Map([...SOURCES, ["half", text]]));
  expect(code.startsWith("enable f16;\n// Half.")).toBe(true);
  expect(features).toEqual(["shader-f16"]);
  expect(readKernel("scale", SOURCES).features).toEqual([]);
});

test.each(["alias", "beyond"] as const)("what the GPU refuses is thrown, not dropped: %s", async (program) => {
  const executor = await make(plan([program]));
  await expect(run(executor, program)).rejects.toThrow(GpuValidationError);
});

test("a mistake outside of every scope ends the device's credit", async () => {
  const executor = await make();
  device.handle.createBuffer({ size: 4, usage: 0 });
  await expect(executor.read("x")).rejects.toThrow("the GPU refused a command");
  await expect(run(executor, "forward")).rejects.toThrow(GpuValidationError);
});

test("a plan that the device cannot hold leaves nothing behind", async () => {
  const huge = plan();
  huge.buffers[1]!.bytes = 2 * device.limits.maxBufferSize;
  await expect(make(huge)).rejects.toThrow(/the plan's buffers/);
  expect(device.live.buffer).toBe(0);
});

test("no memory is an error of its own", async () => {
  class GPUOutOfMemoryError {
    message = "none left";
  }
  const popErrorScope = vi.fn().mockResolvedValueOnce(null).mockResolvedValueOnce(new GPUOutOfMemoryError()).mockResolvedValueOnce(null);
  vi.spyOn(device.handle, "pushErrorScope").mockImplementation(() => undefined);
  vi.spyOn(device.handle, "popErrorScope").mockImplementation(popErrorScope);
  await expect(device.scoped("work", () => 1)).rejects.toThrow(OutOfMemoryError);
});

test("a device that is destroyed under way rejects what waits for it", async () => {
  const executor = await make();
  executor.write("x", X);
  await run(executor, "forward");
  const late = executor.readLate(["head"]);
  const whole = executor.read("y");
  device.handle.destroy();
  await expect(late).rejects.toThrow(DeviceLostError);
  await expect(whole).rejects.toThrow(DeviceLostError);
  await expect(run(executor, "forward")).rejects.toThrow("the GPU was lost");
});
