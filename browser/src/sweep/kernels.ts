/**
 * @file One case of the sweep: every kernel on inputs of the same values, checked, timed in turns, and
 * checked again. What is wrong is not timed, or its times are not kept.
 */
import { messageOf } from "../core/errors.ts";
import { DeviceLostError } from "../gpu/errors.ts";
import { Executor } from "../gpu/executor.ts";
import { INPUTS, type Variant } from "../gpu/handle.ts";
import { onGpu } from "../gpu/kernels.ts";
import { familyOf, type Case } from "./definition.ts";
import { disagree, PLAIN } from "./figures.ts";
import { Op, type OpPlan } from "./op.ts";
import type { Row } from "./protocol.ts";
import { Sampler } from "./sampler.ts";
import { blankRow, sampleCount, tooLong, type Stage } from "./stage.ts";

/** On the GPU at a time; kernels that do not fit together take no turns with each other. */
const MOST_BYTES = 512 * 2 ** 20;

interface Candidate {
  row: Row;
  /** As the core reads it: "matmul=vec4". */
  choice: string;
  plan: OpPlan;
}

/** A candidate on the device. */
interface Side extends Candidate {
  executor: Executor;
  sampler: Sampler;
}

/** A row for each of `variants`, which are of the case's family. Throws DeviceLostError. */
export async function measureCase(stage: Stage, what: Case, variants: readonly Variant[]): Promise<Row[]> {
  const op = new Op(stage.core, what.op);
  try {
    const candidates = variants.map((variant) => plan(stage, op, what, variant));
    const fitting = candidates.filter((candidate): candidate is Candidate => "plan" in candidate);
    for (const together of batches(fitting)) {
      if (!stage.isStopped()) await measureTogether(stage, op, together);
    }
    return candidates.map(({ row }) => row);
  } finally {
    op.close();
  }
}

function plan(stage: Stage, op: Op, what: Case, variant: Variant): Candidate | { row: Row } {
  const { device } = stage.open;
  const row = blankRow(stage, { kind: "kernel", case: what.op, group: what.group, variant: variant.name, flops: 0, bytes: 0 });
  if (variant.feature && !device.handle.features.has(variant.feature)) {
    return { row: { ...row, skipped: `this GPU has no ${variant.feature}` } };
  }
  const choice = onGpu(`${familyOf(what)}=${variant.name}`, device);
  try {
    const planned = op.plan(choice, device.limits);
    Object.assign(row, { flops: planned.flops, bytes: planned.bytes });
    row.skipped = tooLong(stage, planned.flops, variant.name, ...PLAIN);
    return row.skipped ? { row } : { row, choice, plan: planned };
  } catch (error) {
    return { row: { ...row, skipped: messageOf(error) } };
  }
}

function batches(candidates: Candidate[]): Candidate[][] {
  const all: Candidate[][] = [];
  let room = 0;
  for (const candidate of candidates) {
    const bytes = candidate.plan.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
    if (bytes > room) {
      all.push([]);
      room = MOST_BYTES;
    }
    all.at(-1)!.push(candidate);
    room -= bytes;
  }
  return all;
}

async function measureTogether(stage: Stage, op: Op, candidates: Candidate[]): Promise<void> {
  const sides: Side[] = [];
  try {
    for (const candidate of candidates) {
      if (stage.isStopped()) return;
      const side = await open(stage, op, candidate);
      if (side) sides.push(side);
    }
    await takeTurns(stage, sides);
    for (const side of sides) await finish(stage, op, side);
  } finally {
    for (const { executor } of sides) executor.destroy();
  }
}

/** Uploads, runs once and checks; null where the kernel cannot run here or is wrong, which its row then says. */
async function open(stage: Stage, op: Op, candidate: Candidate): Promise<Side | null> {
  const { row, plan: planned } = candidate;
  let executor: Executor | null = null;
  try {
    executor = await Executor.create({ ...stage.open, plan: planned });
    for (const name of planned.inputs) executor.write(name, op.input(planned, name));
    const step = planned.buffers.find(({ name }) => name === INPUTS);
    if (step) executor.writeBuffer(INPUTS, new Uint8Array(step.bytes));
    for (const program of ["prepare", "run"]) await runOnce(executor, program);
    const side = { ...candidate, executor, sampler: new Sampler(executor, stage.clock, stage.rules.timing, stage.wallQuantum) };
    if (await isRight(stage, op, side)) return side;
  } catch (error) {
    if (error instanceof DeviceLostError) throw error;
    row.skipped = messageOf(error);
  }
  executor?.destroy();
  return null;
}

function runOnce(executor: Executor, program: string): Promise<void> {
  return executor.watch(program, () => executor.submit(program));
}

/** Warms all up, then samples in rounds from either end, so that a drift of the machine's speed hits all alike. */
async function takeTurns(stage: Stage, sides: Side[]): Promise<void> {
  for (const { sampler, row } of sides) {
    if (stage.isStopped()) return;
    await sampler.warmUp();
    stage.rates.set(row.variant, row.flops / sampler.best);
  }
  const rounds = Math.max(0, ...sides.map(({ sampler }) => sampleCount(stage, sampler.calls * sampler.best)));
  for (let round = 0; round < rounds; round++) {
    for (const { sampler } of round % 2 === 0 ? sides : [...sides].reverse()) {
      if (stage.isStopped()) return;
      if (round < sampleCount(stage, sampler.calls * sampler.best)) await sampler.sample();
    }
  }
}

/** Keeps the samples of a kernel that is still right. */
async function finish(stage: Stage, op: Op, side: Side): Promise<void> {
  const { row, sampler } = side;
  if (stage.isStopped() || !(await isRight(stage, op, side))) return;
  Object.assign(row, { calls: sampler.calls, gpu_s: sampler.gpu, wall_s: sampler.wall });
  row.disagree = disagree(sampler.gpu, sampler.wall, stage.rules.bounds.clocks_factor);
}

async function isRight({ rules }: Stage, op: Op, { row, choice, plan: planned, executor }: Candidate & { executor: Executor }): Promise<boolean> {
  let worst = 0;
  for (const name of planned.results) {
    worst = Math.max(worst, op.check(choice, name, new Float32Array(await executor.read(name))));
  }
  row.error = Number.isFinite(worst) ? worst : null;
  row.ok = worst <= rules.bounds.error;
  return row.ok;
}
