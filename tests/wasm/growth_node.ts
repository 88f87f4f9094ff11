/**
 * @file growth.ts in Node: `node tests/wasm/growth_node.ts BUILD` writes one line of JSON.
 */
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { growth, ready, type Grower } from "./growth.ts";

const site = new URL("../../browser/public/", import.meta.url);
const trajectory = JSON.parse(readFileSync(new URL("check/trajectory.json", site), "utf8")) as Trajectory;
const weights = new Uint8Array(readFileSync(new URL(`check/${trajectory.weights}`, site)));
const worker = new Worker(new URL("grower.mjs", import.meta.url));
const grower: Grower = {
  postMessage: (message) => worker.postMessage(message),
  set onmessage(listener: (event: { data: unknown }) => void) {
    worker.removeAllListeners("message").once("message", (data) => listener({ data }));
  },
  terminate: () => worker.terminate(),
};
await ready(grower);
console.log(JSON.stringify(await growth(process.argv[2]!, new URL("wasm/", site).href, trajectory, weights, grower)));
process.exit(0);
