/**
 * @file Encodes a plan's programs on Dawn's null backend for tests/gpu/test_dawn_plans.py: all of WebGPU's
 * rules are checked, and nothing is computed. `node plan_worker.ts PLAN...` prints as JSON what is wrong with each
 * file's plan, by file.
 */
import { readdirSync, readFileSync } from "node:fs";
import { checkedKernels, type Entry, type GpuPlan } from "../../browser/src/gpu/plan.ts";
import { createDawn } from "../dawn.ts";

const FOLDER = new URL("../../shaders/", import.meta.url);
const sources = new Map(
  readdirSync(FOLDER)
    .filter((name) => name.endsWith(".wgsl"))
    .map((name) => [name.slice(0, -".wgsl".length), readFileSync(new URL(name, FOLDER), "utf8")]),
);
const LAYOUT = { uniform: "uniform", read: "read-only-storage", read_write: "storage" } as const;

const adapter = await createDawn("null").requestAdapter();
if (!adapter) throw new Error("Dawn has no null backend");
const device = await adapter.requestDevice(); // without requiredLimits: WebGPU's defaults
const pipelines = new Map<string, GPUComputePipeline>();

function pipeline({ kernel, constants, bindings }: GpuPlan["pipelines"][number], code: string): GPUComputePipeline {
  const key = JSON.stringify([kernel, constants, bindings]);
  let made = pipelines.get(key);
  if (!made) {
    const entries = bindings.map((access, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: LAYOUT[access] } }));
    const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries })] });
    made = device.createComputePipeline({ layout, compute: { module: device.createShaderModule({ code }), entryPoint: "main", constants } });
    pipelines.set(key, made);
  }
  return made;
}

/** What Dawn says of `work`; empty where it is legal. */
async function refusal(work: () => void): Promise<string> {
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("validation");
  work();
  const errors = [await device.popErrorScope(), await device.popErrorScope()];
  return errors.flatMap((error) => (error ? [error.message] : [])).join("; ");
}

function encode(entries: Entry[], compiled: GPUComputePipeline[], buffers: GPUBuffer[]): void {
  const encoder = device.createCommandEncoder();
  for (const entry of entries) {
    if ("clear" in entry) {
      encoder.clearBuffer(buffers[entry.clear[0]]!, entry.clear[1], entry.clear[2]);
    } else if ("copy" in entry) {
      const [source, from, target, to, bytes] = entry.copy;
      encoder.copyBufferToBuffer(buffers[source]!, from, buffers[target]!, to, bytes);
    } else {
      const layout = compiled[entry.pipeline]!.getBindGroupLayout(0);
      const bound = entry.bindings.map(([buffer, offset, size], binding) => ({ binding, resource: { buffer: buffers[buffer]!, offset, size } }));
      const pass = encoder.beginComputePass();
      pass.setPipeline(compiled[entry.pipeline]!);
      pass.setBindGroup(0, device.createBindGroup({ label: entry.label, layout, entries: bound }));
      pass.dispatchWorkgroups(...entry.grid);
      pass.end();
    }
  }
  encoder.finish();
}

async function faults(plan: GpuPlan): Promise<string[]> {
  const kernels = checkedKernels(plan, sources);
  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = GPUBufferUsage;
  const buffers: GPUBuffer[] = [];
  const compiled: GPUComputePipeline[] = [];
  const found = [
    await refusal(() => {
      for (const { name, bytes, usage } of plan.buffers) {
        const kinds = usage.includes("uniform") ? STORAGE | UNIFORM : STORAGE;
        const buffer = device.createBuffer({ label: name, size: bytes, usage: kinds | COPY_SRC | COPY_DST });
        buffer.destroy(); // only a submit would ask for its memory, of which the null backend has 512 MiB
        buffers.push(buffer);
      }
    }),
    await refusal(() => {
      for (const planned of plan.pipelines) compiled.push(pipeline(planned, kernels.get(planned.kernel)!.code));
    }),
  ];
  for (const [name, entries] of Object.entries(plan.programs)) {
    const said = await refusal(() => encode(entries, compiled, buffers));
    if (said) found.push(`${name}: ${said}`);
  }
  return found.filter((fault) => fault);
}

const all: Record<string, string[]> = {};
for (const file of process.argv.slice(2)) all[file] = await faults(JSON.parse(readFileSync(file, "utf8")) as GpuPlan);
console.log(JSON.stringify(all));
process.exit(); // Dawn's threads would keep the process
