/**
 * @file What the proof page and its worker say: one trajectory on one build after the other, and on the GPU.
 */

/** public/check/trajectory.json, which tests write from the oracle. */
export interface Trajectory {
  /** Largest relative loss difference that counts as agreement. */
  bound: number;
  gpu_bound: number;
  config: Record<string, number | string>;
  /** Name of the safetensors file beside it, with the starting weights. */
  weights: string;
  tokens: number[];
  /** The oracle's losses in float64, one a step. */
  losses: number[];
  grad_norms: number[];
  /** Over the whole validation split, after the last step. */
  val_loss: number;
}

/** In place of a build's name: the browser's GPU. */
export const WEBGPU = "webgpu";

export interface Verdict {
  build: string;
  isa: string;
  threads: number;
  /** |loss - oracle| / |oracle|, a step; the validation loss last. */
  differences: number[];
  worst: number;
  bound: number;
  passed: boolean;
  seconds: number;
}

export interface CheckRequest {
  siteUrl: string;
}

export type CheckEvent =
  | { event: "plan"; builds: { name: string; obstacle: string }[]; bound: number; steps: number }
  | { event: "step"; build: string; step: number }
  | { event: "verdict"; verdict: Verdict }
  | { event: "failed"; build: string; message: string }
  | { event: "done" };
