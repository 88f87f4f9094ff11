/**
 * @file Runs single kernels through Dawn (Tint) for tests/kernel_runner.py, as kernel_worker.py does
 * through wgpu-py. A compiler's message of any kind is an error: shaders compile without warnings.
 */
import { create, globals } from "../browser/node_modules/webgpu/index.js";
import { answer, refuse, requests } from "./wasm/wire.ts";

Object.assign(globalThis, globals);

type Mode = "uniform" | "read" | "read_write";

interface Call {
  code: string;
  constants: Record<string, number>;
  bindings: [Mode, number][];
  grid: [number, number, number];
}

const LAYOUT = { uniform: "uniform", read: "read-only-storage", read_write: "storage" } as const;

const gpu = create(["backend=vulkan"]); // named: once it is collected, Dawn's objects are gone
const adapter = await gpu.requestAdapter();
const device = await adapter?.requestDevice(); // without requiredLimits: WebGPU's defaults
const pipelines = new Map<string, Promise<GPUComputePipeline>>();

function theDevice(): GPUDevice {
  if (!device) throw new Error("no Vulkan adapter; run `make vulkan`");
  return device;
}

async function compile({ code, constants, bindings }: Call): Promise<GPUComputePipeline> {
  const module = theDevice().createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  if (messages.length > 0) throw new Error(messages.map((m) => `${m.type}, line ${m.lineNum}: ${m.message}`).join("\n"));
  const entries = bindings.map(([mode], binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: LAYOUT[mode] } }));
  const layout = theDevice().createPipelineLayout({ bindGroupLayouts: [theDevice().createBindGroupLayout({ entries })] });
  return theDevice().createComputePipelineAsync({ layout, compute: { module, entryPoint: "main", constants } });
}

function pipeline(call: Call): Promise<GPUComputePipeline> {
  const key = JSON.stringify([call.code, call.constants, call.bindings.map(([mode]) => mode)]);
  if (!pipelines.has(key)) pipelines.set(key, compile(call));
  return pipelines.get(key)!;
}

function upload(data: Uint8Array): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_SRC;
  const buffer = theDevice().createBuffer({ size: Math.ceil(data.length / 16) * 16, usage, mappedAtCreation: true });
  new Uint8Array(buffer.getMappedRange()).set(data);
  buffer.unmap();
  return buffer;
}

/** Uploads all arrays, runs the calls in order, reads outputs, [index, bytes] each. */
async function run(calls: Call[], arrays: Uint8Array[], outputs: [number, number][]): Promise<Float32Array[]> {
  const compiled = await Promise.all(calls.map(pipeline));
  theDevice().pushErrorScope("validation");
  const buffers = arrays.map(upload);
  const encoder = theDevice().createCommandEncoder();
  const pass = encoder.beginComputePass();
  calls.forEach(({ bindings, grid }, i) => {
    const entries = bindings.map(([, index], binding) => ({ binding, resource: { buffer: buffers[index]! } }));
    pass.setPipeline(compiled[i]!);
    pass.setBindGroup(0, theDevice().createBindGroup({ layout: compiled[i]!.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(...grid);
  });
  pass.end();
  const copies = outputs.map(([index, size]) => {
    const copy = theDevice().createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    encoder.copyBufferToBuffer(buffers[index]!, 0, copy, 0, size);
    return copy;
  });
  theDevice().queue.submit([encoder.finish()]);
  const error = await theDevice().popErrorScope();
  if (error) throw new Error(error.message);
  await Promise.all(copies.map((copy) => copy.mapAsync(GPUMapMode.READ)));
  const results = copies.map((copy) => new Float32Array(copy.getMappedRange().slice(0)));
  for (const buffer of [...buffers, ...copies]) buffer.destroy();
  return results;
}

for await (const { call, args, arrays } of requests()) {
  try {
    if (call === "about") {
      theDevice();
      answer({ vendor: adapter?.info.vendor, device: adapter?.info.device, description: adapter?.info.description });
    } else if (call === "compile") {
      await pipeline(args as unknown as Call);
      answer(null);
    } else {
      const results = await run(args["dispatches"] as Call[], arrays, args["outputs"] as [number, number][]);
      answer(null, results.map((values) => ({ values, shape: [values.length] })));
    }
  } catch (error) {
    refuse(error instanceof Error ? error.message : String(error));
  }
}
process.exit(); // Dawn's threads would keep the process
