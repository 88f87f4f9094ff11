/**
 * @file One trajectory on one build or on the GPU, compared with the oracle's record.
 */
import { Core, memoryFor, Planner, Session, type Build } from "../core/index.ts";
import type { NamedTensor } from "../checkpoint/safetensors.ts";
import type { RunSession } from "../worker/session.ts";
import type { Trajectory, Verdict } from "./protocol.ts";

export interface TrajectoryRun {
  /** A build's, or the GPU's. */
  name: string;
  open: () => Promise<RunSession>;
  /** Largest relative difference that counts as agreement. */
  bound: number;
  trajectory: Trajectory;
  weights: NamedTensor[];
  onStep: (step: number) => void;
}

/** A session on a build, of the size that the trajectory needs. */
export async function openBuild(planner: Planner, build: Build, threads: number, wasmUrl: string, trajectory: Trajectory): Promise<Session> {
  const { config, tokens } = trajectory;
  const { memory } = planner.plan(config, "train", threads, tokens.length);
  const core = await Core.load({ build, baseUrl: wasmUrl, bytes: memoryFor(memory, threads), threads });
  return new Session(core, config, "train", threads);
}

/** Runs all steps and the validation loss. Throws TabgptError where it cannot be run. */
export async function runTrajectory({ name, open, bound, trajectory, weights, onStep }: TrajectoryRun): Promise<Verdict> {
  const session = await open();
  try {
    const begun = performance.now();
    const differences = await follow(session, trajectory, weights, onStep);
    const worst = Math.max(...differences.map((difference) => (Number.isNaN(difference) ? Infinity : difference)));
    const seconds = (performance.now() - begun) / 1000;
    const { isa, threads } = session;
    return { build: name, isa, threads, differences, worst, bound, passed: worst <= bound, seconds };
  } finally {
    session.close();
  }
}

/** Trains a session along the trajectory; relative differences of its losses, the validation loss last. */
export async function follow(
  session: RunSession,
  { tokens, losses, val_loss: valLoss }: Trajectory,
  weights: NamedTensor[],
  onStep: (step: number) => void,
): Promise<number[]> {
  session.setTokens(Uint32Array.from(tokens));
  await session.initWeights();
  for (const { name, read } of weights) session.setTensor(name, await read());
  const differences: number[] = [];
  for (const expected of losses) {
    const { step, loss } = await session.step();
    onStep(step);
    differences.push(relative(loss, expected));
  }
  session.evaluateBegin("val", 0);
  while (await session.evaluateNext());
  return [...differences, relative(session.metric("loss"), valLoss)];
}

function relative(value: number, expected: number): number {
  return Math.abs(value - expected) / Math.abs(expected);
}
