/**
 * @file Runs single kernels on a WebGPU device for tests/kernel_runner.py, in Node or in a browser. A
 * compiler's message of any kind is an error: shaders compile without warnings.
 */
type Mode = "uniform" | "read" | "read_write";

export interface Call {
  code: string;
  constants: Record<string, number>;
  bindings: [Mode, number][];
  grid: [number, number, number];
}

const LAYOUT = { uniform: "uniform", read: "read-only-storage", read_write: "storage" } as const;

export interface KernelDevice {
  compile: (call: Call) => Promise<unknown>;
  /** Uploads all arrays, runs the calls in order, reads outputs, [index, bytes] each. */
  run: (calls: Call[], arrays: Uint8Array[], outputs: [number, number][]) => Promise<Float32Array[]>;
}

export function kernelDevice(device: GPUDevice): KernelDevice {
  const pipelines = new Map<string, Promise<GPUComputePipeline>>();

  async function compile({ code, constants, bindings }: Call): Promise<GPUComputePipeline> {
    const module = device.createShaderModule({ code });
    const { messages } = await module.getCompilationInfo();
    if (messages.length > 0) throw new Error(messages.map((m) => `${m.type}, line ${m.lineNum}: ${m.message}`).join("\n"));
    const entries = bindings.map(([mode], binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: LAYOUT[mode] } }));
    const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
    return device.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main", constants } });
  }

  function pipeline(call: Call): Promise<GPUComputePipeline> {
    const key = JSON.stringify([call.code, call.constants, call.bindings.map(([mode]) => mode)]);
    if (!pipelines.has(key)) pipelines.set(key, compile(call));
    return pipelines.get(key)!;
  }

  function upload(data: Uint8Array): GPUBuffer {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_SRC;
    const buffer = device.createBuffer({ size: Math.ceil(data.length / 16) * 16, usage, mappedAtCreation: true });
    new Uint8Array(buffer.getMappedRange()).set(data);
    buffer.unmap();
    return buffer;
  }

  /** Uploads all arrays, runs the calls in order, reads outputs, [index, bytes] each. */
  async function run(calls: Call[], arrays: Uint8Array[], outputs: [number, number][]): Promise<Float32Array[]> {
    const compiled = await Promise.all(calls.map(pipeline));
    device.pushErrorScope("validation");
    const buffers = arrays.map(upload);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    calls.forEach(({ bindings, grid }, i) => {
      const entries = bindings.map(([, index], binding) => ({ binding, resource: { buffer: buffers[index]! } }));
      pass.setPipeline(compiled[i]!);
      pass.setBindGroup(0, device.createBindGroup({ layout: compiled[i]!.getBindGroupLayout(0), entries }));
      pass.dispatchWorkgroups(...grid);
    });
    pass.end();
    const copies = outputs.map(([index, size]) => {
      const copy = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
      encoder.copyBufferToBuffer(buffers[index]!, 0, copy, 0, size);
      return copy;
    });
    device.queue.submit([encoder.finish()]);
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    await Promise.all(copies.map((copy) => copy.mapAsync(GPUMapMode.READ)));
    const results = copies.map((copy) => new Float32Array(copy.getMappedRange().slice(0)));
    for (const buffer of [...buffers, ...copies]) buffer.destroy();
    return results;
  }

  return { compile: pipeline, run };
}
