/**
 * @file growth.ts in a browser: a worker that is told a build's name, and a trajectory without weights of its
 * own unless it is the oracle's, and answers with its result. grower.mjs lies beside it.
 */
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { readSafetensors, tensorsOf } from "../../browser/src/checkpoint/safetensors.ts";
import { growth, ready, type Grower } from "./growth.ts";
import { answer, fetched, SITE, WASM_URL } from "./tab.ts";

answer(async ({ build, given }: { build: string; given: Trajectory | null }) => {
  const trajectory = given ?? ((await (await fetched("check/trajectory.json")).json()) as Trajectory);
  const file = given ? null : await (await fetched(`check/${trajectory.weights}`)).blob();
  const weights = file ? tensorsOf(await readSafetensors(file)) : [];
  const grower = new Worker(new URL("grower.mjs", SITE), { type: "module" }) as unknown as Grower;
  await ready(grower);
  return growth(build, WASM_URL, trajectory, weights, grower);
});
