/**
 * @file growth.ts in a browser: a worker that is told a build's name and answers with its result. It lies
 * at the root of a site with the folders wasm and check, beside grower.mjs.
 */
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { growth, ready, type Grower } from "./growth.ts";

globalThis.onmessage = async ({ data: build }: MessageEvent<string>) => {
  const site = new URL(".", self.location.href);
  const trajectory = (await (await fetch(new URL("check/trajectory.json", site))).json()) as Trajectory;
  const weights = new Uint8Array(await (await fetch(new URL(`check/${trajectory.weights}`, site))).arrayBuffer());
  const grower = new Worker(new URL("grower.mjs", site), { type: "module" }) as unknown as Grower;
  await ready(grower);
  globalThis.postMessage(await growth(build, new URL("wasm/", site).href, trajectory, weights, grower));
};
