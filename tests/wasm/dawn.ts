/**
 * @file Dawn, Chromium's WebGPU, as the GPU that the page's code finds; shaders from the folder.
 */
import { readdirSync, readFileSync } from "node:fs";
import { obstacleSentence } from "../../browser/src/gpu/adapter.ts";
import { Gpu } from "../../browser/src/gpu/gpu.ts";
import { createDawn } from "../dawn.ts";

const FOLDER = new URL("../../shaders/", import.meta.url);

/** Throws where there is no Vulkan driver; tests/vulkan.py finds one. */
export async function openDawn(): Promise<Gpu> {
  const sources = new Map(
    readdirSync(FOLDER).map((file) => [file.replace(/\.wgsl$/, ""), readFileSync(new URL(file, FOLDER), "utf8")]),
  );
  const gpu = await Gpu.find(createDawn("vulkan"), sources);
  if (typeof gpu === "string") throw new Error(obstacleSentence(gpu));
  return gpu;
}
