/**
 * @file The kernels that train one model fastest on one GPU: the sweep's own measurement, at the sizes of
 * that model's step, and the check of a whole step with what it found.
 */
import { TabgptError, type Core, type CoreConfig } from "../core/index.ts";
import { checkGpu } from "../gpu/check.ts";
import { GpuClock, wallQuantum } from "../gpu/clock.ts";
import type { OpenDevice } from "../gpu/gpu.ts";
import { gpuVariants, type Variant } from "../gpu/handle.ts";
import { choiceText, isAutomatic } from "../gpu/kernels.ts";
import { familyOf, RULES, type Case, type Rules } from "./definition.ts";
import { seconds } from "./figures.ts";
import { measureCase } from "./kernels.ts";
import type { Row } from "./protocol.ts";
import type { Stage } from "./stage.ts";

/** A case, and how often a step has it. */
interface Weighted extends Case {
  count: number;
}

export interface Tuned {
  /** "matmul=vec4 attention=flash". */
  choice: string;
  /** How many times as fast as the core's own choice, in all that was measured. */
  gain: number;
}

export interface Tuning {
  open: OpenDevice;
  core: Core;
  config: CoreConfig;
  onCase: (done: number, total: number) => void;
  isStopped: () => boolean;
  /** Of a whole step with a choice of kernels. */
  check?: typeof checkGpu;
}

/** Shorter than the sweep's: a choice needs less than a record. */
const TIMING: Rules["timing"] = { ...RULES.timing, warm_up_s: 0.05, samples: 5, sample_s: 0.01 };
const GROUP = "model";

/** The products and the attention of one micro-batch, forward and backward; equal ones once. */
export function modelCases(config: CoreConfig): Weighted[] {
  const size = (name: string): number => config[name] as number;
  const [B, T, C, F, V, L, H] = ["batch_size", "ctx", "d_model", "d_mlp", "vocab_size", "n_layer", "n_head"].map(size) as [number, number, number, number, number, number, number];
  const M = B * T;
  const counts = new Map<string, number>();
  const add = (op: string, count: number): unknown => counts.set(op, (counts.get(op) ?? 0) + count);
  for (const [from, to] of [[C, 3 * C], [C, C], [C, F], [F, C]] as const) {
    add(`matmul NN ${M} ${from} ${to}`, L);
    add(`matmul NT ${M} ${to} ${from}`, L);
    add(`matmul TN ${from} ${M} ${to}`, L);
  }
  add(`matmul NT ${M} ${C} ${V}`, 1);
  add(`matmul NN ${M} ${V} ${C}`, 1);
  add(`matmul TN ${V} ${M} ${C}`, 1);
  for (const half of ["forward", "backward"]) add(`attention ${half} ${B} ${H} ${T} ${C / H}`, L);
  return [...counts].map(([op, count]) => ({ op, group: GROUP, count }));
}

/**
 * Throws TabgptError where it was stopped, where the GPU is too slow to be measured so, or where the fastest
 * kernels fail the check.
 */
export async function tune({ open, core, config, onCase, isStopped, check = checkGpu }: Tuning): Promise<Tuned> {
  const clock = await GpuClock.create(open.device);
  const rules = { timing: TIMING, bounds: RULES.bounds };
  const stage: Stage = { open, core, clock, wallQuantum: wallQuantum(), rules, isStopped, rates: new Map(), checks: new Map() };
  const variants = gpuVariants(core).filter(isAutomatic);
  const cases = modelCases(config);
  const rows: Row[] = [];
  try {
    for (const [i, what] of cases.entries()) {
      onCase(i, cases.length);
      rows.push(...(await measureCase(stage, what, variants.filter(({ family }) => family === familyOf(what)))));
      if (isStopped()) throw new TabgptError("tuning was stopped; the kernels stay as they were");
    }
  } finally {
    clock.destroy();
  }
  const tuned = fastest(rows, cases, variants);
  const { problem } = await check(open, core, tuned.choice);
  if (problem) throw new TabgptError(`the fastest kernels here (${tuned.choice}) fail the page's check: ${problem}; the kernels stay as they were`);
  return tuned;
}

/** By family, the least time of a whole micro-batch among the kernels that ran all of its cases. */
export function fastest(rows: readonly Row[], cases: readonly Weighted[], variants: readonly Variant[]): Tuned {
  const choice = new Map<string, string>();
  let [before, after] = [0, 0];
  for (const family of new Set(cases.map(familyOf))) {
    const own = cases.filter((what) => familyOf(what) === family);
    const total = (name: string): number =>
      own.reduce((sum, { op, count }) => {
        const row = rows.find((candidate) => candidate.case === op && candidate.variant === name);
        return sum + count * ((row && seconds(row)) ?? Infinity);
      }, 0);
    const names = variants.filter((variant) => variant.family === family).map(({ name }) => name);
    const best = names.reduce((a, b) => (total(b) < total(a) ? b : a));
    const least = total(best);
    if (!Number.isFinite(least)) {
      const why = rows.find((row) => row.variant === best && seconds(row) === null)?.skipped;
      throw new TabgptError(`no ${family} kernel could be measured at this model's sizes (${why || "its result is wrong"}); the kernels stay as they were`);
    }
    const standard = variants.find((variant) => variant.family === family && variant.default)!.name;
    choice.set(family, best);
    before += Number.isFinite(total(standard)) ? total(standard) : least;
    after += least;
  }
  return { choice: choiceText(choice), gain: before / after };
}
