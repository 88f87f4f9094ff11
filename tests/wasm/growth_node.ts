/**
 * @file growth.ts in Node: `node tests/wasm/growth_node.ts BUILD [TRAJECTORY]` writes one line of JSON. The
 * trajectory is a file without weights of its own; the oracle's where none is given.
 */
import { openAsBlob, readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { readSafetensors, tensorsOf } from "../../browser/src/checkpoint/safetensors.ts";
import { growth, ready, type Grower } from "./growth.ts";

const site = new URL("../../browser/public/", import.meta.url);
const [build, given] = process.argv.slice(2) as [string, string | undefined];
const trajectory = JSON.parse(readFileSync(given ?? new URL("check/trajectory.json", site), "utf8")) as Trajectory;
const weights = given ? [] : tensorsOf(await readSafetensors(await openAsBlob(new URL(`check/${trajectory.weights}`, site))));
const worker = new Worker(new URL("grower.mjs", import.meta.url));
const grower: Grower = {
  postMessage: (message) => worker.postMessage(message),
  set onmessage(listener: (event: { data: unknown }) => void) {
    worker.removeAllListeners("message").once("message", (data) => listener({ data }));
  },
  terminate: () => worker.terminate(),
};
await ready(grower);
console.log(JSON.stringify(await growth(build, new URL("wasm/", site).href, trajectory, weights, grower)));
process.exit(0);
