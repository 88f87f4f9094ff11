/**
 * @file A recorded run on a threaded build whose memory begins too small and grows: when the session is
 * opened, between steps, and from another thread in the middle of them.
 */
import { BUILDS, Core, Planner, Session } from "../../browser/src/core/index.ts";
import { follow, openBuild, runTrajectory } from "../../browser/src/check/run.ts";
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { toAddress } from "../../browser/src/core/pointers.ts";
import type { NamedTensor } from "../../browser/src/checkpoint/safetensors.ts";

const MIB = 2 ** 20;
/** What the module itself asks for. */
const START_BYTES = 8 * MIB;
const MAXIMUM_BYTES = 1024 * MIB;
/** The other thread stops here: the core, too, must be able to grow. */
const GROWER_BYTES = 768 * MIB;
/** Asked for between two steps. */
const BLOCK_BYTES = 2 * MIB;

export interface Growth {
  /** The largest relative loss difference from the record, and the bound on it. */
  worst: number;
  bound: number;
  /** Every loss has the bits of the run in a memory that was large enough. */
  same: boolean;
  startBytes: number;
  openBytes: number;
  endBytes: number;
  /** Steps in whose course the memory grew. */
  stepsThatGrew: number;
}

/** A worker that runs grower.mjs. */
export interface Grower {
  postMessage(message: unknown): void;
  onmessage: ((event: { data: unknown }) => void) | null;
  terminate(): unknown;
}

export async function growth(
  name: string,
  wasmUrl: string,
  trajectory: Trajectory,
  weights: NamedTensor[],
  grower: Grower,
): Promise<Growth> {
  const build = BUILDS.find((candidate) => candidate.name === name)!;
  const threads = 2;
  const planner = await Planner.load(wasmUrl);
  const open = (): Promise<Session> => openBuild(planner, build, threads, wasmUrl, trajectory);
  const fixed = await runTrajectory({ name, open, bound: trajectory.bound, trajectory, weights, onStep: () => undefined });

  const core = await Core.load({ build, baseUrl: wasmUrl, bytes: START_BYTES, maximum: MAXIMUM_BYTES, threads });
  const startBytes = core.memoryBytes;
  while (core.memoryBytes === startBytes) core.alloc(MIB / 16);
  const session = new Session(core, trajectory.config, "train", threads);
  const openBytes = core.memoryBytes;

  const signal = new Int32Array(new SharedArrayBuffer(8));
  signal[0] = 1;
  const next = (): Promise<void> => new Promise((resolve) => (grower.onmessage = () => resolve()));
  const ended = next();
  grower.postMessage({ memory: core.memory, page: toAddress(1, build.address), signal, limit: GROWER_BYTES });
  let stepsThatGrew = 0;
  let seen = Atomics.load(signal, 1);
  const differences = await follow(session, trajectory, weights, () => {
    stepsThatGrew += Number(Atomics.load(signal, 1) > seen);
    core.alloc(BLOCK_BYTES);
    seen = Atomics.load(signal, 1);
  });
  Atomics.store(signal, 0, 0);
  Atomics.notify(signal, 0);
  await ended;
  grower.terminate();
  session.close();
  return {
    worst: Math.max(...differences),
    bound: trajectory.bound,
    same: differences.every((difference, i) => difference === fixed.differences[i]),
    startBytes,
    openBytes,
    endBytes: core.memoryBytes,
    stepsThatGrew,
  };
}

/** Resolves once the worker listens. */
export function ready(grower: Grower): Promise<void> {
  return new Promise((resolve) => (grower.onmessage = () => resolve()));
}
