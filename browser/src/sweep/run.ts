/**
 * @file The sweep from its first case to its last: small ones first, so that what is too slow here is known
 * before it is tried.
 */
import type { Core } from "../core/index.ts";
import { GpuClock, wallQuantum } from "../gpu/clock.ts";
import type { OpenDevice } from "../gpu/gpu.ts";
import { gpuVariants, type Variant } from "../gpu/handle.ts";
import { isAutomatic } from "../gpu/kernels.ts";
import { CASES, familyOf, RULES, sizeOf, STEP_GROUP, type Case, type Rules, type Selection } from "./definition.ts";
import { seconds } from "./figures.ts";
import { measureCase } from "./kernels.ts";
import type { Row, SweepEvent } from "./protocol.ts";
import type { Stage } from "./stage.ts";
import { measureStep, presetsByWork } from "./steps.ts";

export interface SweepRun {
  open: OpenDevice;
  core: Core;
  selection: Selection;
  emit: (event: SweepEvent) => void;
  isStopped: () => boolean;
  rules?: Rules;
}

export function selectedCases({ groups, most }: Selection): Case[] {
  return CASES.filter((candidate) => groups.includes(candidate.group) && sizeOf(candidate) <= most);
}

/** Emits progress and rows, and at the end "done". Throws where the device is lost. */
export async function runSweep({ open, core, selection, emit, isStopped, rules = RULES }: SweepRun): Promise<void> {
  const clock = await GpuClock.create(open.device);
  const stage: Stage = { open, core, clock, wallQuantum: wallQuantum(), rules, isStopped, rates: new Map(), checks: new Map() };
  const variants = gpuVariants(core).filter(({ training }) => training || selection.experimental);
  const cases = selectedCases(selection);
  const steps = selection.groups.includes(STEP_GROUP) ? presetsByWork(core) : [];
  const total = cases.length + steps.length;
  const rows: Row[] = [];
  const begin = (what: string, kind: Row["kind"], done: number): void => emit({ event: "progress", what, kind, done, total });
  const end = (measured: Row[]): void => {
    rows.push(...measured);
    emit({ event: "rows", rows: measured });
  };
  try {
    for (const [i, what] of cases.entries()) {
      if (isStopped()) break;
      begin(what.op, "kernel", i);
      const own = variants.filter(({ family }) => family === familyOf(what));
      end(await measureCase(stage, what, own));
    }
    for (const [i, preset] of steps.entries()) {
      if (isStopped()) break;
      begin(preset, "step", cases.length + i);
      end(await measureStep(stage, preset, fastestOf(rows, variants)));
    }
    emit({
      event: "done",
      stopped: isStopped(),
      clock: { gpu: clock.hasStamps ? "timestamp-query" : "", gpuQuantum: clock.quantum, wallQuantum: stage.wallQuantum },
    });
  } finally {
    clock.destroy();
  }
}

/** By family, the float32 kernel offered for training that needed the least time in all cases that each one ran. */
export function fastestOf(rows: readonly Row[], variants: readonly Variant[]): Map<string, string> {
  const fastest = new Map<string, string>();
  for (const family of new Set(variants.map((variant) => variant.family))) {
    const names = variants.filter((variant) => variant.family === family && isAutomatic(variant)).map(({ name }) => name);
    const timeOf = (name: string, what: string): number | null => {
      const row = rows.find((candidate) => candidate.case === what && candidate.variant === name);
      return row ? seconds(row) : null;
    };
    const ran = names.filter((name) => rows.some((row) => row.variant === name && seconds(row) !== null));
    const common = [...new Set(rows.map((row) => row.case))].filter((what) => ran.length > 0 && ran.every((name) => timeOf(name, what) !== null));
    if (common.length === 0) continue;
    // A mean of ratios, so that the largest case does not decide alone.
    const score = (name: string): number => common.reduce((sum, what) => sum + Math.log(timeOf(name, what)!), 0);
    fastest.set(family, ran.reduce((a, b) => (score(b) < score(a) ? b : a)));
  }
  return fastest;
}
