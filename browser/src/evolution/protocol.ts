/**
 * @file What the evolution page and its worker say: the stages that a tab can run, in turns, on this machine.
 */
export interface EvolutionRequest {
  siteUrl: string;
  preset: string;
  /** The oracle's first losses, which every stage's are held against. */
  losses: number[];
  bound: number;
  /** The check that the page knows the GPU to have passed; "" is none. */
  checked: string;
}

export type EvolutionEvent =
  /** What will run; the others' `obstacle` says why not. */
  | { event: "plan"; stages: { name: string; obstacle: string; note: string }[]; rounds: number }
  | { event: "opening"; stage: string }
  /** Largest relative difference of the first losses from the oracle's. */
  | { event: "verdict"; stage: string; difference: number; passed: boolean }
  /** Seconds a step, of one round. */
  | { event: "sample"; stage: string; seconds: number }
  | { event: "failed"; stage: string; message: string }
  | { event: "done" };

/** In `failed`: not one stage but all of them. */
export const ALL = "all";
