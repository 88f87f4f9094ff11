/**
 * @file The browser's half of bench/matmul_tab.py: products on persistent buffers, timed in pairs
 * against another build's or against a loop in registers. The same rules as bench/pairs.py.
 */
import { BUILDS, Core } from "../../browser/src/core/index.ts";
import { answer, clockQuantum, fromBase64, toBase64 } from "./answer.ts";

interface Job {
  build: string;
  threads: number;
  /** M, N, K. */
  sizes: [number, number, number];
  /** 0 NN, 1 NT, 2 TN. */
  form: number;
  /** Another number of threads of the same build, or a loop of registers.cpp. */
  peer: { threads: number } | { wasm: string; rows: number; columns: number };
  pairs: number;
  sampleMs: number;
  warmUpMs: number;
  /** Base64 of float32. */
  a: string;
  b: string;
}

interface Side {
  run: () => void;
  calls: number;
  seconds: number[];
}

const LEAST_SAMPLE_MS = 1;
const LEAST_QUANTA = 20;
const MEMORY_BYTES = 128 * 2 ** 20;
const TABLE = { factor: 0.5, row: 0.001953125 }; // registers.cpp's

const cores = new Map<string, Promise<Core>>();

/** One instance for each build and number of threads, kept. */
function coreFor(name: string, threads: number): Promise<Core> {
  const key = `${name} ${threads}`;
  const build = BUILDS.find((candidate) => candidate.name === name);
  if (!build) throw new Error(`no build is called "${name}"`);
  const baseUrl = new URL("wasm/", self.location.href).href;
  const core = cores.get(key) ?? Core.load({ build, baseUrl, bytes: MEMORY_BYTES, threads });
  cores.set(key, core);
  return core;
}

const floats = (text: string): Float32Array => new Float32Array(fromBase64(text));

/** Calls `use` with a product whose operands lie in the core's memory, and with a copy of its result. */
function withProduct<R>(core: Core, job: Job, threads: number, use: (run: () => void, out: () => string) => R): R {
  const [M, N] = job.sizes;
  const blank = new Float32Array(M * N).fill(NaN);
  const params = new Float64Array([job.form, ...job.sizes, 0, 0, 0, 0, 0, 0, 1]);
  return core.withArrays([floats(job.a), floats(job.b), blank], (a, b, out) =>
    core.withArrays(["matmul", params, Uint32Array.of(a!, b!, out!, 0, 0, 0)], (name, numbers, tensors) =>
      use(
        () => core.check(core.abi.tabgpt_op(name!, numbers!, params.length, tensors!, 6, threads), "matmul"),
        () => toBase64(core.floats(out!, M * N).slice()),
      ),
    ),
  );
}

function warmUp(run: () => void, warmUpMs: number, sampleMs: number): Side {
  let best = Infinity;
  const start = performance.now();
  while (performance.now() - start < warmUpMs) {
    const before = performance.now();
    run();
    best = Math.min(best, performance.now() - before);
  }
  return { run, calls: Math.max(1, Math.ceil((1.2 * sampleMs) / Math.max(best, 1e-3))), seconds: [] };
}

function sample(side: Side, leastMs: number): void {
  side.run(); // wakes threads and warms caches
  for (;;) {
    const before = performance.now();
    for (let call = 0; call < side.calls; call++) side.run();
    const elapsed = performance.now() - before;
    if (elapsed >= leastMs) {
      side.seconds.push(elapsed / 1000 / side.calls);
      return;
    }
    side.calls *= 2;
  }
}

function compare(ours: () => void, peer: () => void, { pairs, sampleMs, warmUpMs }: Job) {
  const quantum = clockQuantum();
  const leastMs = Math.max(LEAST_SAMPLE_MS, LEAST_QUANTA * quantum * 1000);
  const sides = [ours, peer].map((run) => warmUp(run, warmUpMs, Math.max(sampleMs, leastMs)));
  for (let pair = 0; pair < pairs; pair++) {
    for (const side of pair % 2 === 0 ? sides : sides.toReversed()) sample(side, leastMs);
  }
  const [mine, theirs] = sides as [Side, Side];
  return {
    ours_s: mine.seconds,
    peer_s: theirs.seconds,
    ours_calls: mine.calls,
    peer_calls: theirs.calls,
    warm_up_s: warmUpMs / 1000,
    clock: "performance.now",
    quantum_s: quantum,
  };
}

/** A loop of as many floating-point operations as the product, and how far its sum was from what it must be. */
async function loopOf(job: Job, { wasm, rows, columns }: { wasm: string; rows: number; columns: number }) {
  const { instance } = await WebAssembly.instantiateStreaming(fetch(new URL(wasm, self.location.href)));
  const sum = instance.exports[`sum_${rows}x${columns}`] as (turns: number) => number;
  const tile = rows * columns;
  const turns = Math.round(job.sizes.reduce((a, b) => a * b) / tile);
  const short = 512; // so that float32 counts exactly
  const expected = (tile * (tile - 1)) / 2 + tile * short * TABLE.factor * TABLE.row;
  return { run: () => void sum(turns), error: Math.abs(sum(short) / expected - 1) };
}

async function measure(job: Job) {
  const core = await coreFor(job.build, job.threads);
  const { peer } = job;
  if ("wasm" in peer) {
    const loop = await loopOf(job, peer);
    return withProduct(core, job, job.threads, (run, out) => {
      return { timing: compare(run, loop.run, job), outs: { ours: out() }, loop_error: loop.error, isa: core.isa };
    });
  }
  const other = await coreFor(job.build, peer.threads);
  return withProduct(core, job, job.threads, (run, out) =>
    withProduct(other, job, peer.threads, (runOther, outOther) => {
      const timing = compare(run, runOther, job);
      return { timing, outs: { ours: out(), peer: outOther() }, loop_error: 0, isa: core.isa };
    }),
  );
}

answer<Job>(measure);
