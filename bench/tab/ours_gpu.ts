/** @file Our product on WebGPU: the plan of one operation, as the bench page runs it. */
import { BUILDS, Core } from "../../browser/src/core/index.ts";
import { Executor } from "../../browser/src/gpu/executor.ts";
import { Gpu } from "../../browser/src/gpu/gpu.ts";
import { INPUTS } from "../../browser/src/gpu/handle.ts";
import { onGpu } from "../../browser/src/gpu/kernels.ts";
import { Op } from "../../browser/src/sweep/op.ts";
import { type Product, serveLibrary } from "./library.ts";

const BUILD = "scalar";
const MEMORY_BYTES = 128 * 2 ** 20;

async function start() {
  const build = BUILDS.find(({ name }) => name === BUILD)!;
  const core = await Core.load({ build, baseUrl: new URL("wasm/", self.location.href).href, bytes: MEMORY_BYTES, threads: 1 });
  const texts = (await (await fetch(new URL("shaders.json", self.location.href))).json()) as Record<string, string>;
  const gpu = await Gpu.find((navigator as { gpu?: GPU }).gpu, new Map(Object.entries(texts)));
  if (typeof gpu === "string") throw new Error(`no GPU: ${gpu}`);
  const open = await gpu.open();

  async function prepare({ M, N, K, transposeA, transposeB, a, b, kernel }: Product) {
    const form = transposeA ? "TN" : transposeB ? "NT" : "NN";
    const op = new Op(core, `matmul ${form} ${M} ${K} ${N}`);
    const plan = op.plan(onGpu(`matmul=${kernel}`, open.device), open.device.limits);
    const executor = await Executor.create({ ...open, plan });
    const step = plan.buffers.find(({ name }) => name === INPUTS);
    if (step) executor.writeBuffer(INPUTS, new Uint8Array(step.bytes));
    const [left, right] = plan.inputs as [string, string];
    executor.write(left, a);
    executor.write(right, b);
    for (const program of ["prepare", "run"]) await executor.watch(program, () => executor.submit(program));
    const [out] = plan.results as [string];
    return {
      run: () => executor.submitTimed("run", 1, null),
      settle: () => open.device.handle.queue.onSubmittedWorkDone(),
      out: async () => new Float32Array(await executor.read(out)),
      free: () => {
        executor.destroy();
        op.close();
      },
    };
  }

  return { about: `tabgpt, webgpu, ${gpu.identity}`, prepare };
}

serveLibrary(start);
