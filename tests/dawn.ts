/**
 * @file Dawn, Chromium's WebGPU, in Node. The npm package frees Dawn's instance under its living devices
 * when the object of `create` is collected, and V8 collects even a module's own constant after its last
 * use: the process then dies in a lock that is gone. So the global object holds it.
 */
import { create, globals } from "../browser/node_modules/webgpu/index.js";

/** Stands in for navigator.gpu; WebGPU's constants become global, as in a page. */
export function createDawn(backend: "vulkan" | "null"): GPU {
  const dawn = create([`backend=${backend}`]);
  Object.assign(globalThis, globals, { dawn });
  return dawn;
}
