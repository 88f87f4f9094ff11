/**
 * @file Whole training steps of a preset, with the default kernels and with those that the sweep found
 * fastest; checked by one step of a small model against the core.
 */
import { messageOf, TabgptError, type Core, type CoreConfig } from "../core/index.ts";
import { checkGpu } from "../gpu/check.ts";
import { DeviceLostError } from "../gpu/errors.ts";
import { gpuVariants } from "../gpu/handle.ts";
import { choiceText } from "../gpu/kernels.ts";
import { GpuSession } from "../gpu/session.ts";
import { modelConfig, PRESETS, presetValues, trainConfig } from "../presets.ts";
import { STEP_GROUP, VOCAB_SIZE } from "./definition.ts";
import type { Row } from "./protocol.ts";
import { blankRow, sampleCount, tooMuch, type Stage } from "./stage.ts";
import { stepFlops } from "./op.ts";

/** Ids of a text long enough for every preset's window. */
const TOKENS = 20_000;
const WARM_UP_STEPS = 2;

/** Of a training run on a preset. */
function configOf(preset: string): CoreConfig {
  const values = presetValues(preset);
  return { ...trainConfig(values), ...modelConfig(values, VOCAB_SIZE) };
}

/** The presets from the least work to the most. */
export function presetsByWork(core: Core): string[] {
  const work = (preset: string): number => stepFlops(core, configOf(preset));
  return Object.keys(PRESETS).sort((a, b) => work(a) - work(b));
}

/** One row with the core's own choice of kernels, and one with `fastest` where that is another. */
export async function measureStep(stage: Stage, preset: string, fastest: ReadonlyMap<string, string>): Promise<Row[]> {
  const config = configOf(preset);
  const isOther = gpuVariants(stage.core).some(({ family, name, default: own }) => own && fastest.has(family) && fastest.get(family) !== name);
  const rows: Row[] = [];
  for (const kernels of isOther ? [new Map<string, string>(), fastest] : [fastest]) {
    if (stage.isStopped()) break;
    rows.push(await measureOne(stage, preset, config, kernels));
  }
  return rows;
}

async function measureOne(stage: Stage, preset: string, config: CoreConfig, kernels: ReadonlyMap<string, string>): Promise<Row> {
  const flops = stepFlops(stage.core, config);
  const choice = choiceText(kernels);
  const row = blankRow(stage, { kind: "step", case: preset, group: STEP_GROUP, variant: choice || "default", flops, bytes: 0 });
  row.tokens = ["batch_size", "grad_accum", "ctx"].reduce((product, name) => product * (config[name] as number), 1);
  row.skipped = obstacle(stage, flops);
  if (row.skipped) return row;
  try {
    const { worst, problem } = await checkOnce(stage, choice);
    row.error = Number.isFinite(worst) ? worst : null;
    if (problem) return row;
    await time(stage, row, config, choice);
    row.ok = row.wall_s.length > 0;
  } catch (error) {
    if (error instanceof DeviceLostError) throw error;
    row.skipped = messageOf(error);
  }
  return row;
}

function obstacle(stage: Stage, flops: number): string {
  const { software_step_flops: mostFlops, most_step_s: most } = stage.rules.bounds;
  if (stage.open.device.software && flops > mostFlops) {
    return tooMuch(flops, mostFlops);
  }
  const known = stage.rates.get(STEP_GROUP) ?? Math.max(...stage.rates.values());
  const time = known > 0 ? flops / known : null;
  return time !== null && time > most ? `one step would take about ${time.toPrecision(2)} s, at most ${most} s` : "";
}

/** The check of a choice of kernels, which holds for every preset. */
function checkOnce({ open, core, checks }: Stage, variants: string): ReturnType<typeof checkGpu> {
  const result = checks.get(variants) ?? checkGpu(open, core, variants);
  checks.set(variants, result);
  return result;
}

/** Steps in a row, the next submitted before the last one's loss is read, as in training. */
async function time(stage: Stage, row: Row, config: CoreConfig, variants: string): Promise<void> {
  const session = await GpuSession.open({ ...stage.open, core: stage.core, config, mode: "train", variants });
  try {
    session.setTokens(Uint32Array.from({ length: TOKENS }, (_, i) => (i * i + (i >> 3)) % VOCAB_SIZE));
    session.initWeights();
    const best = await steps(session, WARM_UP_STEPS);
    stage.rates.set(STEP_GROUP, row.flops / best);
    row.calls = Math.max(1, Math.ceil(stage.rules.timing.sample_s / best));
    const rounds = sampleCount(stage, row.calls * best);
    while (row.wall_s.length < rounds && !stage.isStopped()) row.wall_s.push(await steps(session, row.calls));
  } finally {
    session.close();
  }
}

/** Seconds a step of as many. Throws where a loss is not finite. */
async function steps(session: GpuSession, count: number): Promise<number> {
  const before = performance.now();
  const underWay: ReturnType<GpuSession["step"]>[] = [];
  for (let step = 0; step < count; step++) {
    underWay.push(session.step());
    if (underWay.length === session.stepsUnderWay) await finite(underWay.shift()!);
  }
  for (const step of underWay) await finite(step);
  return (performance.now() - before) / 1000 / count;
}

async function finite(step: ReturnType<GpuSession["step"]>): Promise<void> {
  const { loss, finite: isFinite } = await step;
  if (!isFinite || !Number.isFinite(loss)) throw new TabgptError(`the loss became ${loss}`);
}
