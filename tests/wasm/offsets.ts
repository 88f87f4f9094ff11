/**
 * @file A build in memory around an edge, 2 GiB or 4 GiB: what lies below is allocated and never touched,
 * so the test takes addresses, not memory. Written and read are both ends of a block across the edge, from
 * JavaScript and from the core; one array longer than all 32-bit offsets; and a training run whose tensors
 * lie on either side.
 */
import { BUILDS, Core, memoryFor, Planner, Session } from "../../browser/src/core/index.ts";
import { pointerTable } from "../../browser/src/core/pointers.ts";
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { follow, openBuild, runTrajectory } from "../../browser/src/check/run.ts";
import { readSafetensors, tensorsOf } from "../../browser/src/checkpoint/safetensors.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const FLOAT = Float32Array.BYTES_PER_ELEMENT;
const THREADS = 2;
/** A 32-bit build gives less than 2 GiB in one piece. */
const BLOCK = 512 * MIB;
/** A block that begins below the edge and ends above it. */
const ACROSS = 4 * MIB;
/** An array that no 32-bit offset spans. */
const LONG = 4 * GIB + 256 * MIB;

/** For a session's threads to end, and their stacks to be freed. */
const SETTLE_MS = 20;
/** Less than the run's tensors take. */
const LIFT = MIB / 4;
/** GELU is x to the last bit where x is large. */
const LARGE = 100;

export interface Offsets {
  /** Addresses of the run's lowest and highest tensor. */
  lowest: number;
  highest: number;
  /** Every loss has the bits of the run in low memory. */
  same: boolean;
  /** What did not come back as it was written; empty where all did. */
  wrong: string[];
  /** Bytes of the array that the core summed from end to end; 0 where the width has none so long. */
  span: number;
}

export async function offsets(name: string, edge: number, wasmUrl: string, trajectory: Trajectory, file: Blob): Promise<Offsets> {
  const build = BUILDS.find((candidate) => candidate.name === name)!;
  const weights = tensorsOf(await readSafetensors(file));
  const planner = await Planner.load(wasmUrl);
  const onStep = (): void => undefined;
  const open = (): Promise<Session> => openBuild(planner, build, THREADS, wasmUrl, trajectory);
  const low = await runTrajectory({ name, open, bound: trajectory.bound, trajectory, weights, onStep });

  const { memory } = planner.plan(trajectory.config, "train", THREADS, trajectory.tokens.length);
  const span = build.address === 64 ? LONG : 0;
  const bytes = Math.max(edge, span) + 4 * memoryFor(memory, THREADS);
  const core = await Core.load({ build, baseUrl: wasmUrl, bytes, threads: THREADS });
  const wrong = span > 0 ? longArray(core, span) : [];

  const below = fillTo(core, edge - ACROSS / 2, ACROSS);
  const block = core.alloc(ACROSS);
  if (block >= edge || block + ACROSS <= edge) throw new Error(`the block at ${block} is not across ${edge}`);
  wrong.push(...endsFromJavaScript(core, block, edge), ...endsFromCore(core, block, edge));
  for (const each of [block, ...below]) core.abi.tabgpt_free(each);

  const session = await openAcross(core, edge, () => new Session(core, trajectory.config, "train", THREADS));
  const [lowest, highest] = bounds(session);
  const differences = await follow(session, trajectory, weights, onStep);
  session.close();
  return {
    lowest,
    highest,
    same: differences.every((difference, i) => difference === low.differences[i]),
    wrong,
    span,
  };
}

/** Opens a session a little higher each time, until its tensors lie on both sides of an edge. */
async function openAcross(core: Core, edge: number, open: () => Session): Promise<Session> {
  fillTo(core, edge - 8 * MIB, MIB);
  for (;;) {
    const session = open();
    if (bounds(session)[1] >= edge) return session;
    session.close();
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    core.alloc(LIFT);
  }
}

/** Addresses of a session's lowest and highest tensor. */
function bounds(session: Session): [number, number] {
  const places = session.names().map((tensor) => session.address(tensor));
  return [Math.min(...places), Math.max(...places)];
}

/** Allocates until a piece of this size would begin at an address, or less than 1 MiB below; gives the blocks. */
function fillTo(core: Core, address: number, size: number): number[] {
  const blocks: number[] = [];
  for (;;) {
    const next = core.alloc(size);
    core.abi.tabgpt_free(next);
    const left = Math.floor(address - next);
    if (left < MIB) return blocks;
    const block = core.alloc(Math.min(left, BLOCK));
    if (block === next) {
      blocks.push(block);
    } else {
      // It was a hole, too small for the block.
      core.abi.tabgpt_free(block);
      blocks.push(core.alloc(size));
    }
  }
}

function endsFromJavaScript(core: Core, block: number, edge: number): string[] {
  const wrong: string[] = [];
  for (const at of [block, edge - 8, edge - 4, edge, edge + 4, block + ACROSS - 8]) {
    core.floats(at, 2).set([at / MIB, -1]);
    core.bytes(at + 4, 4).set([1, 2, 3, 4]);
    const [first] = core.floats(at, 1);
    const bytes = [...core.bytes(at + 4, 4)].join();
    if (first !== Math.fround(at / MIB) || bytes !== "1,2,3,4") wrong.push(`JavaScript at ${at}: ${first}, ${bytes}`);
  }
  return wrong;
}

/** The core's GELU from below the edge to above it, and back. */
function endsFromCore(core: Core, block: number, edge: number): string[] {
  const half = Math.min(block + ACROSS - edge, edge - block) / FLOAT;
  const wrong: string[] = [];
  for (const [from, to] of [[edge - half * FLOAT, edge], [edge, edge - half * FLOAT]] as const) {
    core.floats(from, half).forEach((_, i, values) => (values[i] = LARGE + i));
    core.floats(to, half).fill(0);
    op(core, "gelu_forward", [half, 1], [to, from]);
    const bad = core.floats(to, half).findIndex((value, i) => value !== LARGE + i);
    if (bad >= 0) wrong.push(`the core from ${from} to ${to}: element ${bad} is ${core.floats(to, half)[bad]}`);
  }
  return wrong;
}

/** Marks at both ends and around 2 and 4 GiB of one array, which the core sums on its threads. */
function longArray(core: Core, span: number): string[] {
  const [array, sum] = [core.alloc(span), core.alloc(Float64Array.BYTES_PER_ELEMENT)];
  const last = span / FLOAT - 1;
  const marked = [0, 2 ** 29 - 1, 2 ** 29, 2 ** 30 - 1, 2 ** 30, last];
  marked.forEach((element, i) => core.floats(array + element * FLOAT, 1).fill(2 ** i));
  op(core, "sum_of_squares", [last + 1], [sum, array]);
  const got = new Float64Array(core.bytes(sum, Float64Array.BYTES_PER_ELEMENT).slice().buffer)[0];
  const want = marked.reduce((total, _, i) => total + 4 ** i, 0);
  const read = marked.map((element) => core.floats(array, last + 1)[element]).join();
  for (const pointer of [array, sum]) core.abi.tabgpt_free(pointer);
  const right = got === want && read === marked.map((_, i) => 2 ** i).join();
  return right ? [] : [`an array of ${span} bytes: the core sums ${got}, not ${want}; JavaScript reads ${read}`];
}

/** A kernel on memory at these addresses, as runOp on copies. */
function op(core: Core, name: string, params: number[], pointers: number[]): void {
  const table = pointerTable(pointers, core.build.address);
  const status = core.withArrays([name, new Float64Array(params), table], (n, p, t) =>
    core.abi.tabgpt_op(n!, p!, params.length, t!, pointers.length, THREADS),
  );
  core.check(status, name);
}
