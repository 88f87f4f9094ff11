/**
 * @file What a library's worker does with matrix products: prepare one, call it a number of times
 * against the clock, hand its result back. bench/matmul_peers.py and bench/kernels_tab.py ask it, ours and
 * theirs alike.
 */
import { answer, clockQuantum, fromBase64, toBase64 } from "./answer.ts";

export interface Product {
  M: number;
  N: number;
  K: number;
  /** a is [K,M] where set, else [M,K]. */
  transposeA: boolean;
  /** b is [N,K] where set, else [K,N]. */
  transposeB: boolean;
  a: Float32Array<ArrayBuffer>;
  b: Float32Array<ArrayBuffer>;
  /** Which of our kernels computes it on a GPU; others choose by themselves. */
  kernel: string;
}

/** A product whose operands the library holds; its result is there when `run` and then `settle` resolve. */
export interface Prepared {
  run: () => void | Promise<void>;
  /** Of a library that hands its work over to a GPU: waits for all of it. */
  settle?: () => Promise<unknown>;
  out: () => Float32Array | Promise<Float32Array>;
  free: () => void;
}

export interface Library {
  /** What it says of itself: version, threads. */
  about: string;
  prepare: (product: Product) => Prepared | Promise<Prepared>;
}

interface Job {
  do: keyof ReturnType<typeof handlersOf>;
  threads: number;
  /** M, N, K. */
  sizes: [number, number, number];
  form: "NN" | "NT" | "TN";
  /** Base64 of float32. */
  a: string;
  b: string;
  kernel?: string;
  count: number;
  /** Whether one more call, not timed, goes before. */
  wake: boolean;
}

/** Serves a library; `start` is called once, with the number of threads. */
export function serveLibrary(start: (threads: number) => Library | Promise<Library>): void {
  const handlers = handlersOf(start);
  answer<Job>((job) => handlers[job.do](job));
}

function handlersOf(start: (threads: number) => Library | Promise<Library>) {
  let library: Library;
  let prepared: Prepared;
  return {
    start: async ({ threads }: Job) => {
      library = await start(threads);
      return library.about;
    },
    prepare: async ({ sizes: [M, N, K], form, a, b, kernel = "" }: Job) => {
      const [x, y] = [new Float32Array(fromBase64(a)), new Float32Array(fromBase64(b))];
      const [transposeA, transposeB] = [form === "TN", form === "NT"];
      prepared = await library.prepare({ M, N, K, transposeA, transposeB, a: x, b: y, kernel });
    },
    calls: async ({ count, wake }: Job) => {
      if (wake) await prepared.run();
      await prepared.settle?.();
      const before = performance.now();
      for (let call = 0; call < count; call++) await prepared.run();
      await prepared.settle?.();
      return { seconds: (performance.now() - before) / 1000 };
    },
    out: async () => toBase64(await prepared.out()),
    free: () => prepared.free(),
    quantum: clockQuantum,
  };
}
