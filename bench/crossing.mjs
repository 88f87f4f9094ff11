/**
 * How long a cache line takes from one core to another: node crossing.mjs prints nanoseconds.
 *
 * Two threads hand a number to and fro through shared memory. Tens of nanoseconds are cores that share
 * a cache; hundreds are cores that do not, as when a hypervisor places a machine's two on separate parts
 * of a processor. Bursts: a burst that another program disturbs is not the fastest.
 */
import { isMainThread, Worker, workerData } from "node:worker_threads";

const BURSTS = 40;
const TURNS = 5000;

/** Waits for each number of this side's, and answers with the next. */
function play(word, first, turns) {
  for (let turn = 0; turn < turns; turn++) {
    const mine = 2 * turn + first;
    while (Atomics.load(word, 0) !== mine);
    Atomics.store(word, 0, mine + 1);
  }
}

if (isMainThread) {
  const word = new Int32Array(new SharedArrayBuffer(4));
  new Worker(new URL(import.meta.url), { workerData: word });
  const taken = [];
  for (let burst = 0; burst < BURSTS; burst++) {
    while (Atomics.load(word, 0) !== -1);
    const before = performance.now();
    Atomics.store(word, 0, 0);
    play(word, 0, TURNS);
    while (Atomics.load(word, 0) !== 2 * TURNS && Atomics.load(word, 0) !== -1);
    taken.push((1e6 * (performance.now() - before)) / (2 * TURNS));
  }
  console.log(Math.min(...taken).toFixed(1));
  process.exit();
} else {
  for (;;) {
    Atomics.store(workerData, 0, -1);
    play(workerData, 1, TURNS);
  }
}
