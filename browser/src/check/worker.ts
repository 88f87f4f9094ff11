/**
 * @file The proof page's worker: every build that this browser runs, one after the other.
 */
import { BUILDS, detectFeatures, messageOf, obstacle, Planner, threadLimit } from "../core/index.ts";
import { readSafetensors, toFloat32 } from "../checkpoint/safetensors.ts";
import type { CheckEvent, CheckRequest, Trajectory } from "./protocol.ts";
import { runTrajectory } from "./run.ts";

const send = (event: CheckEvent): void => globalThis.postMessage(event);
const ALL = "all";

async function fetched(url: URL): Promise<Response> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: the server answered ${response.status}`);
  return response;
}

async function check({ siteUrl }: CheckRequest): Promise<void> {
  const features = await detectFeatures();
  const base = new URL("check/", siteUrl);
  const trajectory = (await (await fetched(new URL("trajectory.json", base))).json()) as Trajectory;
  const file = new Uint8Array(await (await fetched(new URL(trajectory.weights, base))).arrayBuffer());
  const weights = [...readSafetensors(file).tensors].map(([name, entry]) => ({
    name,
    shape: entry.shape,
    values: toFloat32(name, entry),
  }));
  const wasmUrl = new URL("wasm/", siteUrl).href;
  const planner = await Planner.load(wasmUrl);
  const builds = BUILDS.filter(({ address }) => address === 32);
  send({
    event: "plan",
    builds: builds.map((build) => ({ name: build.name, obstacle: obstacle(build, features) })),
    bound: trajectory.bound,
    steps: trajectory.losses.length,
  });
  for (const build of builds.filter((candidate) => obstacle(candidate, features) === "")) {
    const threads = build.threads ? Math.max(2, threadLimit(features)) : 1;
    const onStep = (step: number): void => send({ event: "step", build: build.name, step });
    try {
      const verdict = await runTrajectory({ planner, build, threads, wasmUrl, trajectory, weights, onStep });
      send({ event: "verdict", verdict });
    } catch (error) {
      send({ event: "failed", build: build.name, message: messageOf(error) });
    }
  }
  send({ event: "done" });
}

globalThis.onmessage = ({ data }: MessageEvent<CheckRequest>) => {
  check(data).catch((error: unknown) => send({ event: "failed", build: ALL, message: messageOf(error) }));
};
