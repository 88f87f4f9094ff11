/**
 * @file The bench page's worker: says what GPU there is, and sweeps it when told to.
 */
import { BUILDS, Core, messageOf } from "../core/index.ts";
import type { Obstacle } from "../gpu/adapter.ts";
import { Gpu } from "../gpu/gpu.ts";
import { SHADERS } from "../gpu/sources.ts";
import type { AdapterFacts, SweepEvent, ToSweep } from "./protocol.ts";
import { runSweep } from "./run.ts";

const send = (event: SweepEvent): void => globalThis.postMessage(event);

/** Grows with the cases: the largest has three matrices of 16 MiB, and answers in float64. */
const MEMORY = { bytes: 64 * 2 ** 20, maximum: 1024 * 2 ** 20 };

const NO_GPU: Partial<Record<Obstacle, string>> = {
  "no-api":
    "This browser gives the page no WebGPU, so there is nothing to measure. Current Chrome, Edge, Safari and Firefox have it " +
    "on most systems; it needs HTTPS or localhost.",
  "no-adapter":
    "This browser has WebGPU but found no GPU that it lets a page use, so there is nothing to measure. " +
    "Its driver may be missing or blocked; the browser's own GPU page (chrome://gpu, about:support) says why.",
};

let stopped = false;
let found: Promise<Gpu> | null = null;

function need(): Promise<Gpu> {
  found ??= Gpu.find((navigator as { gpu?: GPU }).gpu, SHADERS).then((gpu) => {
    if (typeof gpu === "string") throw new Error(NO_GPU[gpu]);
    return gpu;
  });
  return found;
}

async function facts(gpu: Gpu): Promise<AdapterFacts> {
  const { device } = await gpu.open();
  const limits: Record<string, number> = {};
  for (const name in device.handle.limits) {
    const value = (device.handle.limits as unknown as Record<string, unknown>)[name];
    if (typeof value === "number") limits[name] = value;
  }
  return { identity: gpu.identity, software: gpu.software, features: [...device.handle.features].sort(), limits };
}

async function start({ siteUrl, selection }: ToSweep & { command: "start" }): Promise<void> {
  const gpu = await need();
  const build = BUILDS.find((candidate) => !candidate.simd && !candidate.threads && candidate.address === 32)!;
  const core = await Core.load({ build, baseUrl: new URL("wasm/", siteUrl).href, ...MEMORY, threads: 1 });
  await runSweep({ open: await gpu.open(), core, selection, emit: send, isStopped: () => stopped });
}

async function look(): Promise<void> {
  send({ event: "adapter", adapter: await facts(await need()) });
}

const handlers = {
  look,
  start: (message: ToSweep & { command: "start" }) => {
    stopped = false;
    return start(message);
  },
  stop: () => void (stopped = true),
};

globalThis.onmessage = ({ data }: MessageEvent<ToSweep>) => {
  const answer = data.command === "start" ? handlers.start(data) : handlers[data.command]();
  Promise.resolve(answer).catch((error: unknown) => send({ event: "failed", message: messageOf(error) }));
};
