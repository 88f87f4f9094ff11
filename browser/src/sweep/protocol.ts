/**
 * @file What the bench page and its worker say to each other, and the rows that they say it in.
 */
import type { Selection } from "./definition.ts";

/** One kernel at one size, or one training step of a preset; the record holds them as they are. */
export interface Row {
  kind: "kernel" | "step";
  /** The operation and its sizes, or the preset. */
  case: string;
  group: string;
  /** The kernel, or "matmul=... attention=..." of a step. */
  variant: string;
  software: boolean;
  /** Why it was not measured; "" where it was. */
  skipped: string;
  /** Its results were within the bound before and after it was timed. */
  ok: boolean;
  /** Largest error as a share of the bound; null where it is not finite, or nothing ran. */
  error: number | null;
  /** Of one call: floating-point operations, and bytes that it cannot do without moving. */
  flops: number;
  bytes: number;
  /** Calls in a sample. */
  calls: number;
  /** Seconds a call, a sample each: by the GPU's timestamps (none where it has none), and by the wall clock. */
  gpu_s: number[];
  wall_s: number[];
  /** The two clocks differ by more than the rule allows. */
  disagree: boolean;
  /** Tokens of a training step. */
  tokens?: number;
}

export interface AdapterFacts {
  identity: string;
  software: boolean;
  features: string[];
  limits: Record<string, number>;
}

export interface ClockFacts {
  /** "timestamp-query" where the device has it. */
  gpu: string;
  /** Seconds; null where there are no timestamps. */
  gpuQuantum: number | null;
  wallQuantum: number;
}

export interface Progress {
  /** The case that is measured now. */
  what: string;
  kind: Row["kind"];
  /** Cases. */
  done: number;
  total: number;
}

/** "look" is answered by "adapter"; a sweep by rows, and at its end by "done"; "failed" ends either. */
export type ToSweep = { command: "look" } | { command: "start"; siteUrl: string; selection: Selection } | { command: "stop" };

export type SweepEvent =
  | { event: "adapter"; adapter: AdapterFacts }
  | ({ event: "progress" } & Progress)
  | { event: "rows"; rows: Row[] }
  | { event: "done"; stopped: boolean; clock: ClockFacts }
  | { event: "failed"; message: string };
