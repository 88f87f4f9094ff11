/**
 * @file offsets.ts in Node: `node tests/wasm/offsets_node.ts BUILD EDGE` writes one line of JSON.
 */
import { openAsBlob, readFileSync } from "node:fs";
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { offsets } from "./offsets.ts";

const site = new URL("../../browser/public/", import.meta.url);
const trajectory = JSON.parse(readFileSync(new URL("check/trajectory.json", site), "utf8")) as Trajectory;
const weights = await openAsBlob(new URL(`check/${trajectory.weights}`, site));
const [build, edge] = process.argv.slice(2) as [string, string];
console.log(JSON.stringify(await offsets(build, Number(edge), new URL("wasm/", site).href, trajectory, weights)));
process.exit(0);
