/**
 * @file Runs a plan on a device: makes its buffers and bind groups once, then only encodes and submits.
 *
 * After `create` nothing is allocated but the command buffers that each submit uses up.
 */
import { TabgptError } from "../core/errors.ts";
import type { GpuDevice } from "./device.ts";
import { Pipelines } from "./pipelines.ts";
import { checkedKernels, tensorBytes, type Entry, type GpuPlan, type PlannedTensor, type Range } from "./plan.ts";
import { Readback } from "./readback.ts";
import type { ShaderSources } from "./shaders.ts";

/** Bits of GPUBufferUsage; the global is not there in every Node. */
const USAGE = { mapRead: 0x1, copySource: 0x4, copyTarget: 0x8, uniform: 0x40, storage: 0x80 } as const;
/** A plan's "storage", "uniform" or "storage|uniform"; every buffer is filled and read by copies too. */
function usageOf(planned: string): GPUBufferUsageFlags {
  const bits = planned.split("|").map((word) => (word === "uniform" ? USAGE.uniform : USAGE.storage));
  return bits.reduce((all, bit) => all | bit, USAGE.copySource | USAGE.copyTarget);
}

/**
 * Entries in one submit: drivers reset a GPU that is busy for about 2 s with one, and the slowest kernels
 * take some 10 ms each on hardware.
 */
const ENTRIES_A_SUBMIT = 48;

type Step =
  | { pipeline: GPUComputePipeline; bindGroup: GPUBindGroup; grid: [number, number, number] }
  | { clear: [GPUBuffer, number, number] }
  | { copy: [GPUBuffer, number, GPUBuffer, number, number] };

export interface ExecutorOptions {
  device: GpuDevice;
  pipelines: Pipelines;
  sources: ShaderSources;
  plan: GpuPlan;
  onPipeline?: (done: number, total: number) => void;
}

export class Executor {
  readonly plan: GpuPlan;
  readonly #device: GpuDevice;
  readonly #buffers: GPUBuffer[];
  readonly #programs: Map<string, Step[]>;
  readonly #bindGroups: number;
  readonly #readback: Readback;
  /** Programs that have run: a mistake in one shows at its first use. */
  readonly #tried = new Set<string>();

  private constructor(
    options: ExecutorOptions,
    buffers: GPUBuffer[],
    programs: Map<string, Step[]>,
    bindGroups: number,
    readback: Readback,
  ) {
    this.plan = options.plan;
    this.#device = options.device;
    this.#buffers = buffers;
    this.#programs = programs;
    this.#bindGroups = bindGroups;
    this.#readback = readback;
  }

  /**
   * Compiles, allocates and uploads the words. Throws TabgptError where shaders and plan disagree, before
   * anything is created; OutOfMemoryError where the device has no room, with nothing left behind.
   */
  static async create(options: ExecutorOptions): Promise<Executor> {
    const { device, pipelines, sources, plan, onPipeline = () => undefined } = options;
    const kernels = checkedKernels(plan, sources);
    const compiled = await pipelines.compile(plan.pipelines, kernels, onPipeline);
    const buffers: GPUBuffer[] = [];
    try {
      await device.scoped(`the plan's buffers (${sizeText(plan)})`, () => {
        for (const { name, bytes, usage } of plan.buffers) buffers.push(device.createBuffer(name, bytes, usageOf(usage)));
      });
      const readback = await Readback.create(device, largestTensor(plan));
      buffers.push(...readback.buffers);
      const groups = new Map<string, GPUBindGroup>();
      const toStep = (entry: Entry): Step => {
        if ("clear" in entry) return { clear: [buffers[entry.clear[0]]!, entry.clear[1], entry.clear[2]] };
        if ("copy" in entry) {
          const [source, from, target, to, bytes] = entry.copy;
          return { copy: [buffers[source]!, from, buffers[target]!, to, bytes] };
        }
        const { handle, layout } = compiled[entry.pipeline]!;
        const key = `${plan.pipelines[entry.pipeline]!.bindings.join()} ${entry.bindings.join(" ")}`;
        const bindGroup = groups.get(key) ?? makeBindGroup(device, entry.label, layout, entry.bindings, buffers);
        groups.set(key, bindGroup);
        return { pipeline: handle, bindGroup, grid: entry.grid };
      };
      const programs = await device.scoped("the plan's bind groups", () => {
        device.handle.queue.writeBuffer(buffers[plan.words.buffer]!, 0, Uint32Array.from(plan.words.data));
        return new Map(Object.entries(plan.programs).map(([name, entries]) => [name, entries.map(toStep)]));
      });
      device.live.bindGroup += groups.size;
      return new Executor(options, buffers, programs, groups.size, readback);
    } catch (error) {
      for (const buffer of buffers) device.destroyBuffer(buffer);
      throw error;
    }
  }

  has(program: string): boolean {
    return this.#programs.has(program);
  }

  tensor(name: string): PlannedTensor {
    const tensor = this.plan.tensors[name];
    if (!tensor) throw new TabgptError(`there is no tensor "${name}"`);
    return tensor;
  }

  /** Uploads a tensor from its first element on; in order with what is submitted. */
  write(name: string, data: Uint8Array | Float32Array | Uint32Array): void {
    const tensor = this.tensor(name);
    if (data.byteLength > tensorBytes(tensor)) {
      throw new TabgptError(`"${name}" holds ${tensorBytes(tensor)} bytes, but ${data.byteLength} were given`);
    }
    // The types say ArrayBuffer; WASM memory that threads share is taken too, by a copy.
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const plain = bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : bytes.slice();
    this.#device.handle.queue.writeBuffer(this.#buffers[tensor.buffer]!, tensor.offset, plain);
  }

  /** Submits a program; its first run is watched for errors, later ones by `uncapturederror`. */
  async run(program: string): Promise<void> {
    const steps = this.#programs.get(program);
    if (!steps) throw new TabgptError(`the GPU plan has no program "${program}"`);
    this.#device.check();
    if (this.#tried.has(program)) return this.#submit(steps, program);
    await this.#device.scoped(`the program "${program}"`, () => this.#submit(steps, program));
    this.#tried.add(program);
  }

  #submit(steps: Step[], label: string): void {
    const { handle } = this.#device;
    for (let begin = 0; begin < steps.length; begin += ENTRIES_A_SUBMIT) {
      const encoder = handle.createCommandEncoder({ label });
      encode(encoder, steps.slice(begin, begin + ENTRIES_A_SUBMIT));
      handle.queue.submit([encoder.finish()]);
    }
  }

  /** A tensor as it stands after all that was submitted. */
  async read(name: string): Promise<ArrayBuffer> {
    const tensor = this.tensor(name);
    return this.#readback.read(this.#buffers[tensor.buffer]!, tensor.offset, tensorBytes(tensor));
  }

  /** Reads some small tensors later, without making the GPU wait: the ring has a slot for each read under way. */
  readLate(names: string[]): Promise<ArrayBuffer[]> {
    return this.#readback.readLate(
      names.map((name) => {
        const tensor = this.tensor(name);
        return { source: this.#buffers[tensor.buffer]!, offset: tensor.offset, bytes: tensorBytes(tensor) };
      }),
    );
  }

  /** Gives back every buffer; the pipelines stay in their cache. */
  destroy(): void {
    for (const buffer of this.#buffers) this.#device.destroyBuffer(buffer);
    this.#device.live.bindGroup -= this.#bindGroups;
    this.#programs.clear();
  }
}

function makeBindGroup(
  device: GpuDevice,
  label: string,
  layout: GPUBindGroupLayout,
  ranges: Range[],
  buffers: GPUBuffer[],
): GPUBindGroup {
  const entries = ranges.map(([buffer, offset, size], binding) => ({ binding, resource: { buffer: buffers[buffer]!, offset, size } }));
  return device.handle.createBindGroup({ label, layout, entries });
}

/** Dispatches that follow each other share a pass; clears and copies stand between passes. */
function encode(encoder: GPUCommandEncoder, steps: Step[]): void {
  let pass: GPUComputePassEncoder | null = null;
  for (const step of steps) {
    if ("pipeline" in step) {
      pass ??= encoder.beginComputePass();
      pass.setPipeline(step.pipeline);
      pass.setBindGroup(0, step.bindGroup);
      pass.dispatchWorkgroups(...step.grid);
      continue;
    }
    pass?.end();
    pass = null;
    if ("clear" in step) encoder.clearBuffer(...step.clear);
    else encoder.copyBufferToBuffer(...step.copy);
  }
  pass?.end();
}

function largestTensor(plan: GpuPlan): number {
  return Object.values(plan.tensors).reduce((most, tensor) => Math.max(most, tensorBytes(tensor)), 0);
}

function sizeText(plan: GpuPlan): string {
  const bytes = plan.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0);
  return `${(bytes / 2 ** 20).toFixed(0)} MiB`;
}
