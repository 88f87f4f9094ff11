/**
 * @file Dawn, Chromium's WebGPU, in Node: a stand-in for navigator.gpu. The Vulkan driver is the one that
 * VK_ICD_FILENAMES names, else the software driver that Chromium brings with it.
 */
import { existsSync } from "node:fs";
import { create, globals } from "webgpu";
import { findAdapter, type Adapter } from "../src/gpu/adapter.ts";

const CHROMIUMS_DRIVER = "/usr/lib/chromium/vk_swiftshader_icd.json";

if (!process.env.VK_ICD_FILENAMES && existsSync(CHROMIUMS_DRIVER)) process.env.VK_ICD_FILENAMES = CHROMIUMS_DRIVER;
Object.assign(globalThis, globals);

export const dawn: GPU = create(["backend=vulkan"]);

/** Fails where Dawn finds no driver: the suite brings one, so a missing one is a mistake. */
export async function dawnAdapter(): Promise<Adapter> {
  const found = await findAdapter(dawn);
  if (typeof found !== "string") return found;
  throw new Error(`Dawn finds no Vulkan driver (${found}): set VK_ICD_FILENAMES to one, as of Mesa 24 or newer, or install Chromium`);
}
