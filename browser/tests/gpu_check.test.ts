import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { BUILDS, Core } from "../src/core/index.ts";
import { findAdapter, obstacleSentence, type Obstacle } from "../src/gpu/adapter.ts";
import { CHECK_BYTES, checkGpu } from "../src/gpu/check.ts";
import { Executor } from "../src/gpu/executor.ts";
import { Gpu } from "../src/gpu/gpu.ts";
import { GpuSession } from "../src/gpu/session.ts";
import { modelConfig, presetValues, trainConfig } from "../src/presets.ts";
import { dawn } from "./dawn.ts";

// A GPU that is a program on a busy CPU takes its time.
vi.setConfig({ testTimeout: 300_000 });

const FOLDER = new URL("../../shaders/", import.meta.url);
const SHADERS = new Map(readdirSync(FOLDER).map((file) => [file.replace(".wgsl", ""), readFileSync(new URL(file, FOLDER), "utf8")]));

let core: Core;
let gpu: Gpu;

async function find(sources = SHADERS): Promise<Gpu> {
  const found = await Gpu.find(dawn, sources);
  if (typeof found === "string") throw new Error(obstacleSentence(found));
  return found;
}

beforeAll(async () => {
  const baseUrl = new URL("../public/wasm/", import.meta.url).href;
  core = await Core.load({ build: BUILDS.find(({ name }) => name === "scalar")!, baseUrl, bytes: CHECK_BYTES, threads: 1 });
  gpu = await find();
});
afterAll(() => gpu.destroy());

test("a GPU that computes what the core does passes, and the check leaves nothing on it", async () => {
  const open = await gpu.open();
  const { problem, worst } = await checkGpu(open, core);
  expect(problem).toBe("");
  expect(worst).toBeGreaterThan(0);
  expect(open.device.live).toMatchObject({ buffer: 0, bindGroup: 0 });
  open.device.check();
});

test("a GPU that computes one thing wrong fails by the tensor's name", async () => {
  const right = SHADERS.get("gelu")!;
  const wrong = right.replaceAll("0.044715", "0.0448");
  expect(wrong).not.toBe(right);
  const broken = await find(new Map([...SHADERS, ["gelu", wrong]]));
  const { problem } = await checkGpu(await broken.open(), core);
  expect(problem).toMatch(/ is off by .*, allowed/);
  broken.destroy();
});

test("a lost device is replaced, an old one kept", async () => {
  const first = await gpu.open();
  expect(await gpu.open()).toBe(first);
  first.device.destroy();
  await vi.waitFor(() => expect(first.device.lost).not.toBeNull());
  expect((await gpu.open()).device.lost).toBeNull();
});

test("a session's plan is the one for the GPU's vendor", async () => {
  const values = { ...presetValues("nanogpt-cpu"), n_layer: 1, d_model: 256, batch_size: 16 };
  const config = { ...modelConfig(values, 65), ...trainConfig(values) };
  const create = vi.spyOn(Executor, "create").mockRejectedValue(new Error("enough")); // before pipelines are compiled
  const memory = async (api: GPU): Promise<number> => {
    const found = await Gpu.find(api, SHADERS);
    if (typeof found === "string") throw new Error(found);
    await expect(GpuSession.open({ ...(await found.open()), core, config, mode: "train" })).rejects.toThrow("enough");
    found.destroy();
    return create.mock.lastCall![0].plan.buffers.reduce((sum, { bytes }) => sum + bytes, 0);
  };
  const named = (vendor: string): GPU => {
    const requestAdapter = async (): Promise<GPUAdapter | null> => {
      const adapter = await dawn.requestAdapter();
      return adapter && Object.defineProperty(adapter, "info", { value: info({ vendor }) });
    };
    return { requestAdapter } as unknown as GPU;
  };
  const usual = await memory(dawn);
  expect(await memory(named("nvidia"))).toBeGreaterThan(usual); // partial sums of more parts
  expect(await memory(named("Not An Identifier"))).toBe(usual);
  create.mockRestore();
});

const api = (adapter: unknown): GPU => ({ requestAdapter: () => Promise.resolve(adapter) }) as unknown as GPU;
const info = (fields: object): object => ({ vendor: "", architecture: "", device: "", description: "", ...fields });

test("no API and no adapter are told apart", async () => {
  expect(await findAdapter(undefined)).toBe("no-api");
  expect(await findAdapter(api(null))).toBe("no-adapter");
  expect(await findAdapter({ requestAdapter: () => Promise.reject(new Error("blocked")) } as unknown as GPU)).toBe("no-adapter");
});

test.each([
  [{ vendor: "nvidia", architecture: "hopper" }, false, "nvidia hopper"],
  [{ vendor: "google", architecture: "swiftshader" }, true, "google swiftshader"],
  [{ description: "llvmpipe (LLVM 15)" }, true, "llvmpipe (LLVM 15)"],
  [{ vendor: "microsoft", isFallbackAdapter: true }, true, "microsoft"],
  [{}, false, "a GPU that this browser does not name"],
])("%o is software: %s", async (fields, software, identity) => {
  expect(await findAdapter(api({ info: info(fields) }))).toMatchObject({ software, identity });
});

test("every obstacle has a sentence of its own", () => {
  const obstacles: Obstacle[] = ["no-api", "no-adapter", "software", "failed-check"];
  const sentences = obstacles.map((obstacle) => obstacleSentence(obstacle, "the detail"));
  expect(new Set(sentences).size).toBe(obstacles.length);
  for (const sentence of sentences) expect(sentence).toMatch(/the page trains on the CPU|it trains on the CPU/);
});
