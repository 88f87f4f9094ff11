/**
 * @file The sweep's one definition, reference/tabgpt/sweep.json: cases, timing, bounds. Python reads the same.
 */
import file from "../../../reference/tabgpt/sweep.json" with { type: "json" };

export interface Case {
  /** What the core opens: "matmul NN 512 512 512" (M, K, N), "attention forward 1 6 128 64" (B, H, T, D). */
  op: string;
  group: string;
}

/** What a person asked to be measured. */
export interface Selection {
  groups: string[];
  /** Largest size, as sizeOf() has it. */
  most: number;
  /** Kernels too that are never offered for training. */
  experimental: boolean;
}

export type Rules = Pick<typeof file, "timing" | "bounds">;

export const RULES: Rules = file;
export const CASES: readonly Case[] = file.cases;
export const GROUPS = file.groups;
export const STEP_GROUP = "step";
/** Of the training steps. */
export const VOCAB_SIZE: number = file.vocab_size;

/** Whose kernels run a case: "matmul" or "attention". */
export function familyOf({ op }: Case): string {
  return op.split(" ")[0]!;
}

/** The edge of the cube with as much work, or the context: what a chart has on its axis. */
export function sizeOf(what: Case): number {
  const sizes = what.op.split(" ").slice(2).map(Number);
  if (familyOf(what) === "attention") return sizes[2]!;
  return Math.round(Math.cbrt(sizes.reduce((product, size) => product * size, 1)));
}
