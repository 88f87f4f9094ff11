/**
 * @file Compute pipelines, compiled in the background and kept: the same kernel with the same constants
 * is compiled once a device, whichever plan asks.
 */
import { DeviceLostError, GpuValidationError } from "./errors.ts";
import { messageOf } from "../core/errors.ts";
import type { GpuDevice } from "./device.ts";
import type { PlannedPipeline } from "./plan.ts";
import type { Access, Kernel } from "./shaders.ts";

/** A pipeline that is ready, with what its bind groups are made for. */
export interface Compiled {
  handle: GPUComputePipeline;
  layout: GPUBindGroupLayout;
}

const BUFFER_TYPES: Record<Access, GPUBufferBindingType> = {
  uniform: "uniform",
  read: "read-only-storage",
  read_write: "storage",
};
/** GPUShaderStage.COMPUTE; the global is not there in every Node. */
const COMPUTE = 4;
const ENTRY_POINT = "main";

export class Pipelines {
  readonly #device: GpuDevice;
  readonly #modules = new Map<string, Promise<GPUShaderModule>>();
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #compiled = new Map<string, Promise<Compiled>>();

  constructor(device: GpuDevice) {
    this.#device = device;
  }

  /** All pipelines of a plan, in its order; `onReady` hears of each as it is done. */
  async compile(
    planned: PlannedPipeline[],
    kernels: ReadonlyMap<string, Kernel>,
    onReady: (done: number, total: number) => void,
  ): Promise<Compiled[]> {
    let done = 0;
    return this.#device.orLost(
      Promise.all(
        planned.map(async (pipeline) => {
          const compiled = await this.#get(pipeline, kernels.get(pipeline.kernel)!);
          onReady(++done, planned.length);
          return compiled;
        }),
      ),
    );
  }

  #get({ kernel: name, constants, bindings }: PlannedPipeline, kernel: Kernel): Promise<Compiled> {
    const key = JSON.stringify([name, Object.entries(constants).sort()]);
    let compiled = this.#compiled.get(key);
    if (!compiled) {
      compiled = this.#create(kernel, constants, bindings);
      this.#compiled.set(key, compiled);
    }
    return compiled;
  }

  async #create(kernel: Kernel, constants: Record<string, number>, bindings: Access[]): Promise<Compiled> {
    const { handle: device, live } = this.#device;
    const layout = this.#layout(bindings);
    const module = await this.#module(kernel);
    try {
      const handle = await device.createComputePipelineAsync({
        label: kernel.name,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: ENTRY_POINT, constants },
      });
      live.pipeline++;
      return { handle, layout };
    } catch (error) {
      if (error instanceof DeviceLostError) throw error;
      const lines = (await module.getCompilationInfo()).messages.map(({ lineNum, message }) => `line ${lineNum}: ${message}`);
      throw new GpuValidationError(`${kernel.name}.wgsl does not compile here (${[messageOf(error), ...lines].join("; ")})`);
    }
  }

  #module({ name, code }: Kernel): Promise<GPUShaderModule> {
    let module = this.#modules.get(name);
    if (!module) {
      module = this.#device.scoped(`${name}.wgsl`, () => this.#device.handle.createShaderModule({ label: name, code }));
      this.#device.live.module++;
      this.#modules.set(name, module);
    }
    return module;
  }

  #layout(bindings: Access[]): GPUBindGroupLayout {
    const key = bindings.join();
    let layout = this.#layouts.get(key);
    if (!layout) {
      const entries = bindings.map((access, binding) => ({ binding, visibility: COMPUTE, buffer: { type: BUFFER_TYPES[access] } }));
      layout = this.#device.handle.createBindGroupLayout({ label: key, entries });
      this.#device.live.layout++;
      this.#layouts.set(key, layout);
    }
    return layout;
  }
}
