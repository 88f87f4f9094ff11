/**
 * @file The GPU plan as the core emits it: buffers, named tensors, pipelines, and programs of dispatches.
 */
import { TabgptError } from "../core/errors.ts";
import { readKernel, type Access, type Kernel, type ShaderSources } from "./shaders.ts";

/** A part of a buffer, in bytes. */
export type Range = [buffer: number, offset: number, bytes: number];

export interface Dispatch {
  label: string;
  pipeline: number;
  /** One for each binding of the kernel, in order. */
  bindings: Range[];
  grid: [number, number, number];
}

/** Fills with zeros. */
export interface Clear {
  clear: Range;
}

export interface Copy {
  copy: [source: number, sourceOffset: number, target: number, targetOffset: number, bytes: number];
}

export type Entry = Dispatch | Clear | Copy;

export interface PlannedTensor {
  buffer: number;
  offset: number;
  shape: number[];
  type: "f32" | "u32";
}

export interface PlannedPipeline {
  kernel: string;
  constants: Record<string, number>;
  bindings: Access[];
}

/** What depends on a batch's shape. */
export interface ShapePlan {
  tensors: Record<string, PlannedTensor>;
  /** Every dispatch's problem sizes, and where in their buffer they start. */
  words: { buffer: number; offset: number; data: number[] };
  programs: Record<string, Entry[]>;
}

export interface GpuPlan extends ShapePlan {
  schema: number;
  /** usage: "storage", or "uniform storage" for what is bound as both. */
  buffers: { name: string; role: string; bytes: number; usage: string }[];
  pipelines: PlannedPipeline[];
  /** Sequences and tokens of each of a full batch. */
  batch: [number, number];
  micro_batches: number;
}

const SCHEMA = 1;

/**
 * The kernels that a plan uses, read and compared with it. Throws TabgptError naming kernel, binding and
 * both access modes, or the unknown constant: a mismatch would otherwise be dropped by the GPU in silence.
 */
export function checkedKernels(plan: GpuPlan, sources: ShaderSources): Map<string, Kernel> {
  if (plan.schema !== SCHEMA) throw new TabgptError(`the GPU plan has schema ${plan.schema}, this executor runs ${SCHEMA}; reload the page`);
  const kernels = new Map<string, Kernel>();
  for (const pipeline of plan.pipelines) {
    const kernel = kernels.get(pipeline.kernel) ?? readKernel(pipeline.kernel, sources);
    kernels.set(kernel.name, kernel);
    compareBindings(pipeline, kernel);
    for (const name of Object.keys(pipeline.constants)) {
      if (!kernel.overrides.includes(name)) throw new TabgptError(`${kernel.name}.wgsl has no override "${name}", which the plan sets`);
    }
  }
  return kernels;
}

function compareBindings({ bindings }: PlannedPipeline, kernel: Kernel): void {
  if (bindings.length !== kernel.bindings.length) {
    throw new TabgptError(`${kernel.name}.wgsl has ${kernel.bindings.length} bindings, its plan ${bindings.length}`);
  }
  kernel.bindings.forEach(({ name, access }, i) => {
    if (bindings[i] !== access) {
      throw new TabgptError(`${kernel.name}.wgsl: binding ${i} (${name}) is ${access} in the shader, ${bindings[i]} in the plan`);
    }
  });
}

/** A tensor's size in bytes: both types take 4 an element. */
export function tensorBytes({ shape }: PlannedTensor): number {
  return 4 * shape.reduce((product, size) => product * size, 1);
}
