/**
 * @file Uses a device of Dawn's between collections of garbage, with nothing else that holds on to Dawn, for
 * tests/gpu/test_dawn_plans.py. Run with --expose-gc.
 */
import { createDawn } from "../dawn.ts";

const TURNS = 100_000; // until V8 has optimised the loop, which is when it forgets what has no use left
const gpu = createDawn("null");
const device = await (await gpu.requestAdapter())!.requestDevice();

async function* turns(): AsyncGenerator<number> {
  for (let i = 0; i < TURNS; i++) yield i;
}

for await (const i of turns()) {
  if (i % (TURNS / 10) === 0) globalThis.gc!();
  if (i % (TURNS / 10) === 1) await device.queue.onSubmittedWorkDone();
}
console.log("alive");
process.exit(); // Dawn's threads would keep the process
