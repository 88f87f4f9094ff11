/**
 * @file The proof page's worker: every build that this browser runs, one after the other, and its GPU.
 */
import { BUILDS, detectFeatures, messageOf, obstacle, Planner, threadLimit } from "../core/index.ts";
import { readSafetensors, tensorsOf } from "../checkpoint/safetensors.ts";
import { Gpus } from "../worker/gpus.ts";
import { WEBGPU, type CheckEvent, type CheckRequest, type Trajectory } from "./protocol.ts";
import { openBuild, runTrajectory, type TrajectoryRun } from "./run.ts";

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
  const file = await (await fetched(new URL(trajectory.weights, base))).blob();
  const weights = tensorsOf(await readSafetensors(file));
  const wasmUrl = new URL("wasm/", siteUrl).href;
  const planner = await Planner.load(wasmUrl);
  const gpus = new Gpus(wasmUrl, planner.core, () => undefined);
  const noGpu = await gpus.obstacle();
  send({
    event: "plan",
    builds: [
      ...BUILDS.map((build) => ({ name: build.name, obstacle: obstacle(build, features) })),
      { name: WEBGPU, obstacle: noGpu },
    ],
    bound: trajectory.bound,
    steps: trajectory.losses.length,
  });
  const run = async (name: string, bound: number, open: TrajectoryRun["open"]): Promise<void> => {
    const onStep = (step: number): void => send({ event: "step", build: name, step });
    try {
      send({ event: "verdict", verdict: await runTrajectory({ name, open, bound, trajectory, weights, onStep }) });
    } catch (error) {
      send({ event: "failed", build: name, message: messageOf(error) });
    }
  };
  for (const build of BUILDS.filter((candidate) => obstacle(candidate, features) === "")) {
    const threads = build.threads ? Math.max(2, threadLimit(features)) : 1;
    await run(build.name, trajectory.bound, () => openBuild(planner, build, threads, wasmUrl, trajectory));
  }
  const { config, tokens, gpu_bound: gpuBound } = trajectory;
  if (noGpu === "") await run(WEBGPU, gpuBound, () => gpus.open(config, "train", tokens.length, { checked: "", kernels: "" }));
  send({ event: "done" });
}

globalThis.onmessage = ({ data }: MessageEvent<CheckRequest>) => {
  check(data).catch((error: unknown) => send({ event: "failed", build: ALL, message: messageOf(error) }));
};
