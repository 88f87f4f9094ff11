/**
 * @file Runs single kernels through Dawn (Tint) for tests/kernel_runner.py, as kernel_worker.py does
 * through wgpu-py.
 */
import { createDawn } from "./dawn.ts";
import { kernelDevice, type Call, type KernelDevice } from "./kernel_device.ts";
import { answer, refuse, requests } from "./wasm/wire.ts";

const adapter = await createDawn("vulkan").requestAdapter();
const features = (["shader-f16", "subgroups"] as const).filter((name) => adapter?.features.has(name));
const device = await adapter?.requestDevice({ requiredFeatures: features }); // without requiredLimits: WebGPU's defaults
const kernels = device && kernelDevice(device);

function theKernels(): KernelDevice {
  if (!kernels) throw new Error("no Vulkan adapter; run `make vulkan`");
  return kernels;
}

for await (const { call, args, arrays } of requests()) {
  try {
    if (call === "about") {
      theKernels();
      answer({ vendor: adapter?.info.vendor, device: adapter?.info.device, description: adapter?.info.description });
    } else if (call === "features") {
      answer(features);
    } else if (call === "compile") {
      await theKernels().compile(args as unknown as Call);
      answer(null);
    } else {
      const results = await theKernels().run(args["dispatches"] as Call[], arrays, args["outputs"] as [number, number][]);
      answer(null, results.map((values) => ({ values, shape: [values.length] })));
    }
  } catch (error) {
    refuse(error instanceof Error ? error.message : String(error));
  }
}
process.exit(); // Dawn's threads would keep the process
