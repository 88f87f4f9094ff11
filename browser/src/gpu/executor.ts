/**
 * @file Runs a plan on a device: makes its buffers and bind groups once, then only encodes and submits.
 *
 * After `create` nothing is allocated but the command buffers that each submit uses up.
 */
import { TabgptError } from "../core/errors.ts";
import type { GpuDevice } from "./device.ts";
import type { Compiled, Pipelines } from "./pipelines.ts";
import { checkedKernels, tensorBytes, type Dispatch, type Entry, type GpuPlan, type PlannedTensor, type Range, type ShapePlan } from "./plan.ts";
import { Readback } from "./readback.ts";
import type { Kernel, ShaderSources } from "./shaders.ts";

/** Bits of GPUBufferUsage; the global is not there in every Node. */
const USAGE = { mapRead: 0x1, copySource: 0x4, copyTarget: 0x8, uniform: 0x40, storage: 0x80 } as const;
/** Every buffer is filled and read by copies too. */
function usageOf(planned: string): GPUBufferUsageFlags {
  const bits = planned.split(" ").map((word) => (word === "uniform" ? USAGE.uniform : USAGE.storage));
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

/** Programs and tensors of one batch shape, ready to run. */
interface Shape {
  tensors: Record<string, PlannedTensor>;
  programs: Map<string, Step[]>;
  planned: Record<string, Entry[]>;
  bindGroups: number;
}

export class Executor {
  readonly plan: GpuPlan;
  readonly #device: GpuDevice;
  readonly #kernels: ReadonlyMap<string, Kernel>;
  readonly #compiled: Compiled[];
  readonly #buffers: GPUBuffer[];
  readonly #readback: Readback;
  readonly #whole: Shape;
  /** Of another batch than the plan's own, while one is in use. */
  #other: Shape | null = null;
  readonly #watched = new Set<string>();

  private constructor(
    { plan, device }: ExecutorOptions,
    kernels: ReadonlyMap<string, Kernel>,
    compiled: Compiled[],
    buffers: GPUBuffer[],
    readback: Readback,
  ) {
    this.plan = plan;
    this.#device = device;
    this.#kernels = kernels;
    this.#compiled = compiled;
    this.#buffers = buffers;
    this.#readback = readback;
    this.#whole = this.#prepare(plan);
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
      return await device.scoped("the plan's bind groups", () => new Executor(options, kernels, compiled, buffers, readback));
    } catch (error) {
      for (const buffer of buffers) device.destroyBuffer(buffer);
      throw error;
    }
  }

  /** From now on tensors and programs of this shape stand before the plan's own. */
  async useShape(shape: ShapePlan): Promise<void> {
    this.useOwnShape();
    this.#other = await this.#device.scoped("another batch's bind groups", () => this.#prepare(shape));
  }

  useOwnShape(): void {
    if (!this.#other) return;
    this.#device.live.bindGroup -= this.#other.bindGroups;
    this.#other = null;
  }

  #prepare({ tensors, words, programs }: ShapePlan): Shape {
    const groups = new Map<string, GPUBindGroup>();
    const toStep = (entry: Entry): Step => {
      if ("clear" in entry) return { clear: [this.#buffers[entry.clear[0]]!, entry.clear[1], entry.clear[2]] };
      if ("copy" in entry) {
        const [source, from, target, to, bytes] = entry.copy;
        return { copy: [this.#buffers[source]!, from, this.#buffers[target]!, to, bytes] };
      }
      const { handle, layout } = this.#compiled[entry.pipeline]!;
      const key = `${layout.label} ${entry.bindings.join(" ")}`;
      const bindGroup = groups.get(key) ?? this.#bind(entry, layout);
      groups.set(key, bindGroup);
      return { pipeline: handle, bindGroup, grid: entry.grid };
    };
    this.#device.handle.queue.writeBuffer(this.#buffers[words.buffer]!, words.offset, Uint32Array.from(words.data));
    const steps = new Map(Object.entries(programs).map(([name, entries]) => [name, entries.map(toStep)]));
    this.#device.live.bindGroup += groups.size;
    return { tensors, programs: steps, planned: programs, bindGroups: groups.size };
  }

  #bind({ label, bindings }: Dispatch, layout: GPUBindGroupLayout): GPUBindGroup {
    const entries = bindings.map(([buffer, offset, size], binding) => ({
      binding,
      resource: { buffer: this.#buffers[buffer]!, offset, size },
    }));
    return this.#device.handle.createBindGroup({ label, layout, entries });
  }

  tensor(name: string): PlannedTensor {
    const tensor = this.#other?.tensors[name] ?? this.#whole.tensors[name];
    if (!tensor) throw new TabgptError(`there is no tensor "${name}"`);
    return tensor;
  }

  /** Uploads a tensor from its first element on; in order with what is submitted. */
  write(name: string, data: Uint8Array | Float32Array | Uint32Array): void {
    const tensor = this.tensor(name);
    if (data.byteLength > tensorBytes(tensor)) {
      throw new TabgptError(`"${name}" holds ${tensorBytes(tensor)} bytes, but ${data.byteLength} were given`);
    }
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#device.handle.queue.writeBuffer(this.#buffers[tensor.buffer]!, tensor.offset, unshared(bytes));
  }

  /** All of a buffer's bytes, by its name. */
  writeBuffer(name: string, bytes: Uint8Array): void {
    const index = this.plan.buffers.findIndex((buffer) => buffer.name === name);
    if (this.plan.buffers[index]?.bytes !== bytes.byteLength) throw new TabgptError(`the GPU plan has no buffer "${name}" of ${bytes.byteLength} bytes`);
    this.#device.handle.queue.writeBuffer(this.#buffers[index]!, 0, unshared(bytes));
  }

  /** Names of the tensors that can be read, in the plan's order. */
  get names(): string[] {
    return Object.keys(this.#whole.tensors);
  }

  /**
   * Runs `work`, which submits and does not wait. The first time under a name what the GPU says of it is
   * waited for and thrown; later mistakes come to GpuDevice.check().
   */
  async watch<T>(name: string, work: () => T): Promise<T> {
    this.#device.check();
    if (this.#watched.has(name)) return work();
    const result = await this.#device.scoped(name, work);
    this.#watched.add(name);
    return result;
  }

  #stepsOf(program: string): Step[] {
    const steps = this.#other?.programs.get(program) ?? this.#whole.programs.get(program);
    if (!steps) throw new TabgptError(`the GPU plan has no program "${program}"`);
    return steps;
  }

  /** Submits a program. Its mistakes are for watch() or GpuDevice.check(). */
  submit(program: string): void {
    const steps = this.#stepsOf(program);
    const { handle } = this.#device;
    for (let begin = 0; begin < steps.length; begin += ENTRIES_A_SUBMIT) {
      const encoder = handle.createCommandEncoder({ label: program });
      encode(encoder, steps.slice(begin, begin + ENTRIES_A_SUBMIT));
      handle.queue.submit([encoder.finish()]);
    }
  }

  /**
   * Submits a program `calls` times at once, for a bench that keeps it short. `stamps`: where the times of
   * the first pass's begin and of the last one's end are written.
   */
  submitTimed(program: string, calls: number, stamps: GPUQuerySet | null): void {
    const once = this.#stepsOf(program);
    const encoder = this.#device.handle.createCommandEncoder({ label: program });
    encode(encoder, Array.from({ length: calls }, () => once).flat(), stamps);
    this.#device.handle.queue.submit([encoder.finish()]);
  }

  /** Fills tensors with zeros. */
  clear(names: string[]): void {
    const { handle } = this.#device;
    const encoder = handle.createCommandEncoder({ label: "clear" });
    for (const name of names) {
      const tensor = this.tensor(name);
      encoder.clearBuffer(this.#buffers[tensor.buffer]!, tensor.offset, tensorBytes(tensor));
    }
    handle.queue.submit([encoder.finish()]);
  }

  /** A tensor as it stands after all that was submitted. */
  async read(name: string): Promise<ArrayBuffer> {
    const tensor = this.tensor(name);
    return this.#readback.read(this.#buffers[tensor.buffer]!, tensor.offset, tensorBytes(tensor));
  }

  /** What a binding of a program's last dispatch holds after all that was submitted. */
  readResult(program: string, binding: string): Promise<ArrayBuffer> {
    const last = (this.#other?.planned[program] ?? this.#whole.planned[program])?.at(-1);
    if (!last || !("pipeline" in last)) throw new TabgptError(`the GPU plan has no program "${program}" that ends in a dispatch`);
    const { bindings } = this.#kernels.get(this.plan.pipelines[last.pipeline]!.kernel)!;
    const [buffer, offset, bytes]: Range = last.bindings[bindings.findIndex(({ name }) => name === binding)]!;
    return this.#readback.read(this.#buffers[buffer]!, offset, bytes);
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
    this.useOwnShape();
    this.#device.live.bindGroup -= this.#whole.bindGroups;
    this.#whole.programs.clear();
  }
}

/** writeBuffer takes no memory that threads share, as a WASM build's may be: that is copied. */
function unshared(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : bytes.slice();
}

/** Dispatches that follow each other share a pass; clears and copies stand between passes. */
function encode(encoder: GPUCommandEncoder, steps: Step[], stamps: GPUQuerySet | null = null): void {
  let pass: GPUComputePassEncoder | null = null;
  let isFirst = true;
  const begin = (): GPUComputePassEncoder => {
    if (!stamps) return encoder.beginComputePass();
    // Each pass writes its end in the same place: the last one's stays.
    const first = isFirst ? { beginningOfPassWriteIndex: 0 } : {};
    isFirst = false;
    return encoder.beginComputePass({ timestampWrites: { querySet: stamps, endOfPassWriteIndex: 1, ...first } });
  };
  for (const step of steps) {
    if ("pipeline" in step) {
      pass ??= begin();
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
