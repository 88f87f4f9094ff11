/**
 * @file offsets.ts in a browser: a worker that is told {build, edge} and answers with its result.
 */
import type { Trajectory } from "../../browser/src/check/protocol.ts";
import { offsets } from "./offsets.ts";
import { answer, fetched, WASM_URL } from "./tab.ts";

answer(async ({ build, edge }: { build: string; edge: number }) => {
  const trajectory = (await (await fetched("check/trajectory.json")).json()) as Trajectory;
  return offsets(build, edge, WASM_URL, trajectory, await (await fetched(`check/${trajectory.weights}`)).blob());
});
