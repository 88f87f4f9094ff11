/**
 * @file One trajectory on one build, compared with the oracle's record.
 */
import { Core, memoryFor, Planner, Session, type Build } from "../core/index.ts";
import type { NamedTensor } from "../checkpoint/safetensors.ts";
import type { Trajectory, Verdict } from "./protocol.ts";

export interface TrajectoryRun {
  planner: Planner;
  build: Build;
  threads: number;
  wasmUrl: string;
  trajectory: Trajectory;
  weights: NamedTensor[];
  onStep: (step: number) => void;
}

/** Runs all steps and the validation loss. Throws TabgptError where the build cannot. */
export async function runTrajectory(run: TrajectoryRun): Promise<Verdict> {
  const { planner, build, threads, wasmUrl, trajectory, weights, onStep } = run;
  const { config, tokens, bound } = trajectory;
  const { memory } = planner.plan(config, "train", threads, tokens.length);
  const core = await Core.load({ build, baseUrl: wasmUrl, bytes: memoryFor(memory, threads), threads });
  const session = new Session(core, config, "train", threads);
  try {
    const begun = performance.now();
    const differences = follow(session, trajectory, weights, onStep);
    const worst = Math.max(...differences.map((difference) => (Number.isNaN(difference) ? Infinity : difference)));
    const seconds = (performance.now() - begun) / 1000;
    const { isa } = core;
    return { build: build.name, isa, threads: session.threads, differences, worst, passed: worst <= bound, seconds };
  } finally {
    session.close();
  }
}

/** Trains a session along the trajectory; relative differences of its losses, the validation loss last. */
export function follow(
  session: Session,
  { tokens, losses, val_loss: valLoss }: Trajectory,
  weights: NamedTensor[],
  onStep: (step: number) => void,
): number[] {
  session.setTokens(Uint32Array.from(tokens));
  session.initWeights();
  for (const { name, values } of weights) session.setTensor(name, values);
  const differences = losses.map((expected) => {
    const { step, loss } = session.step();
    onStep(step);
    return relative(loss, expected);
  });
  return [...differences, relative(session.evaluate("val"), valLoss)];
}

function relative(value: number, expected: number): number {
  return Math.abs(value - expected) / Math.abs(expected);
}
