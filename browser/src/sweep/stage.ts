/**
 * @file What every measurement of a sweep shares: the open device, the clocks, the rules, what was learnt
 * of each kernel's speed, and whether the person has had enough.
 */
import type { Core } from "../core/index.ts";
import type { CheckResult } from "../gpu/check.ts";
import type { GpuClock } from "../gpu/clock.ts";
import type { OpenDevice } from "../gpu/gpu.ts";
import type { Rules } from "./definition.ts";
import type { Row } from "./protocol.ts";

export interface Stage {
  open: OpenDevice;
  core: Core;
  clock: GpuClock;
  wallQuantum: number;
  rules: Rules;
  isStopped: () => boolean;
  /** Floating-point operations a second that a kernel reached last, by its name. */
  rates: Map<string, number>;
  /** Checks of whole steps, by their choice of kernels. */
  checks: Map<string, Promise<CheckResult>>;
}

type Named = Pick<Row, "kind" | "case" | "group" | "variant" | "flops" | "bytes">;

export function blankRow(stage: Stage, named: Named): Row {
  const { software } = stage.open.device;
  return { ...named, software, skipped: "", ok: false, error: null, calls: 0, gpu_s: [], wall_s: [], disagree: false };
}

/** Seconds that a call is going to take, by what is known of such kernels; null where nothing is. */
export function predicted({ rates }: Stage, flops: number, ...names: string[]): number | null {
  const known = names.map((name) => rates.get(name)).find((rate) => rate !== undefined);
  return known === undefined ? null : flops / known;
}

/** Why a call is not to be made at all; "" where it may. */
export function tooLong(stage: Stage, flops: number, ...names: string[]): string {
  const { bounds } = stage.rules;
  const { software } = stage.open.device;
  const [most, mostFlops] = software ? [bounds.software_call_s, bounds.software_flops] : [bounds.most_call_s, Infinity];
  if (flops > mostFlops) {
    return tooMuch(flops, mostFlops);
  }
  const time = predicted(stage, flops, ...names);
  return time !== null && time > most ? `one call would take about ${time.toPrecision(2)} s, at most ${most} s` : "";
}

/** Why a software adapter is spared so many operations. */
export function tooMuch(flops: number, most: number): string {
  return `not on a software adapter: ${giga(flops)} Gflop, at most ${giga(most)} there`;
}

function giga(flops: number): string {
  return flops >= 1e11 ? Math.round(flops / 1e9).toLocaleString("en-US") : (flops / 1e9).toPrecision(2);
}

/** How many samples of this length the rules have time for. */
export function sampleCount({ rules: { timing, bounds } }: Stage, seconds: number): number {
  return Math.max(bounds.least_samples, Math.min(timing.samples, Math.floor(bounds.most_row_s / seconds)));
}
