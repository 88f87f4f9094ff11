/**
 * @file The page's GPU path and single kernels in a browser's worker, for tests/gpu_tab.py: the calls of
 * tests/wasm/sessions.ts and of tests/kernel_device.ts, on the GPU that the browser has.
 */
import { BUILDS, Core, memoryFor, messageOf, Planner } from "../../browser/src/core/index.ts";
import { obstacleSentence } from "../../browser/src/gpu/adapter.ts";
import { Gpu } from "../../browser/src/gpu/gpu.ts";
import { GpuSession } from "../../browser/src/gpu/session.ts";
import { kernelDevice, type Call } from "../kernel_device.ts";
import { Arrays, sessionHandlers, type Arguments, type Handler } from "../wasm/sessions.ts";

/** Where the site lies, and the shaders by their files' names. */
interface Setup {
  site: string;
  shaders: Record<string, string>;
}

interface Asked {
  id: number;
  call: string;
  args: Arguments & Setup & { dispatches: Call[]; outputs: [number, number][] };
  arrays: Uint8Array[];
}

type Calls = Record<string, Handler<Asked["args"]>>;

let ready: Promise<Calls> | null = null;

async function open({ site, shaders }: Setup): Promise<Calls> {
  const gpu = await Gpu.find(navigator.gpu, new Map(Object.entries(shaders)));
  if (typeof gpu === "string") throw new Error(obstacleSentence(gpu));
  const baseUrl = new URL("wasm/", site).href;
  const build = BUILDS.find(({ name }) => name === "scalar")!;
  const planner = await Planner.load(baseUrl);
  const { device } = await gpu.open();
  const kernels = kernelDevice(device.handle);
  return {
    ...sessionHandlers(async ({ config, mode, variants }, tokens) => {
      const { memory } = planner.plan(config, mode, 1, tokens);
      const core = await Core.load({ build, baseUrl, bytes: memoryFor(memory, 1), threads: 1 });
      return GpuSession.open({ ...(await gpu.open()), core, config, mode, variants });
    }),
    about: () => gpu.identity,
    features: () => gpu.features,
    compile: async (args) => void (await kernels.compile(args as unknown as Call)),
    run: async ({ dispatches, outputs }, arrays) => {
      const results = await kernels.run(dispatches, arrays, outputs);
      return new Arrays(results.map((values) => ({ values, shape: [values.length] })));
    },
  };
}

globalThis.onmessage = async ({ data: { id, call, args, arrays } }: MessageEvent<Asked>) => {
  try {
    if (call === "setup") ready = open(args);
    const calls = await ready!;
    const result = call === "setup" ? null : await calls[call]!(args, arrays);
    globalThis.postMessage(result instanceof Arrays ? { id, result: null, arrays: result.list } : { id, result: result ?? null, arrays: [] });
  } catch (error) {
    globalThis.postMessage({ id, error: messageOf(error), arrays: [] });
  }
};
