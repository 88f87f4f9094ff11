/**
 * @file The worker's GPU: whether there is one to train on, and sessions on it. No session is opened on a
 * GPU that has not passed the check of its arithmetic.
 */
import { BUILDS, Core, TabgptError, type MemoryPlan, type Mode } from "../core/index.ts";
import { obstacleSentence, type Obstacle } from "../gpu/adapter.ts";
import { CHECK_BYTES, checkGpu } from "../gpu/check.ts";
import { Gpu } from "../gpu/gpu.ts";
import { GpuHandle, gpuVariants } from "../gpu/handle.ts";
import { isOffered, onGpu } from "../gpu/kernels.ts";
import { GpuSession } from "../gpu/session.ts";
import { SHADERS } from "../gpu/sources.ts";
import type { Values } from "../presets.ts";
import { tune } from "../sweep/tune.ts";
import type { Engine, GpuVerdict, RunEvent, TunedKernels } from "./protocol.ts";

/** The core's own: code, a plan's text, a batch. */
const CORE_BYTES = 64 * 2 ** 20;
/** Inputs and answers of a model's largest product. */
const TUNING_BYTES = 2 ** 30;
/** The corpus is copied once while it is set. */
const BYTES_A_TOKEN = 2 * Uint32Array.BYTES_PER_ELEMENT;

export class Gpus {
  readonly #wasmUrl: string;
  readonly #planner: Core;
  readonly #emit: (event: RunEvent) => void;
  #found: Promise<Gpu | Obstacle> | null = null;
  /** The checks that were passed in this worker. */
  readonly #checked = new Set<string>();
  #tunings = 0;

  constructor(wasmUrl: string, planner: Core, emit: (event: RunEvent) => void) {
    this.#wasmUrl = wasmUrl;
    this.#planner = planner;
    this.#emit = emit;
  }

  /** Why there is no GPU, "" where there is one. */
  async obstacle(): Promise<string> {
    const found = await this.#find();
    return typeof found === "string" ? obstacleSentence(found) : "";
  }

  /** A software adapter is offered, unchecked yet; any other is checked unless `checked` says that it was. */
  async verdict(checked: string): Promise<GpuVerdict> {
    const found = await this.#find();
    if (typeof found === "string") return { usable: false, automatic: false, reason: obstacleSentence(found), checked: "", identity: "" };
    const identity = identityOf(found);
    if (found.software) return { usable: true, automatic: false, reason: obstacleSentence("software", found.identity), checked: "", identity };
    const problem = await this.#problem(found, checked, "");
    if (problem) return { usable: false, automatic: false, reason: obstacleSentence("failed-check", problem), checked: "", identity };
    return { usable: true, automatic: true, reason: `The GPU (${found.identity}) computes what the CPU does.`, checked: identity, identity };
  }

  /** Bytes by role of a training run. Throws TabgptError where the GPU's limits do not hold it. */
  async memory(config: Values, kernels: string): Promise<MemoryPlan> {
    const gpu = await this.#need();
    const handle = new GpuHandle(this.#planner, config, "train", gpu.limits, onGpu(this.#variants(gpu, kernels), gpu));
    try {
      return handle.memory();
    } finally {
      handle.close();
    }
  }

  /** Throws TabgptError with the reason where the kernels stay as they are. */
  async tune(config: Values): Promise<TunedKernels> {
    const gpu = await this.#need();
    const turn = ++this.#tunings;
    const onCase = (done: number, total: number): void => this.#emit({ event: "tuning", done, total });
    const core = await this.#core(CHECK_BYTES, TUNING_BYTES);
    const isStopped = (): boolean => turn !== this.#tunings;
    const { choice, gain } = await tune({ open: await gpu.open(), core, config, onCase, isStopped });
    this.#passed(keyOf(gpu, choice));
    return { kernels: choice, gain };
  }

  cancelTuning(): void {
    this.#tunings++;
  }

  async open(config: Values, mode: Mode, tokens: number, { checked, kernels }: Pick<Engine, "checked" | "kernels">): Promise<GpuSession> {
    const gpu = await this.#need();
    const variants = this.#variants(gpu, kernels);
    const problem = await this.#problem(gpu, checked, variants && kernels);
    if (problem) throw new TabgptError(obstacleSentence("failed-check", problem));
    const largest = this.#largestTensor(config);
    const core = await this.#core(CORE_BYTES + BYTES_A_TOKEN * tokens + 2 * largest);
    return GpuSession.open({ ...(await gpu.open()), core, config, mode, variants, onPipeline: this.#onPipeline });
  }

  readonly #onPipeline = (done: number, total: number): void => this.#emit({ event: "preparing", done, total });

  #find(): Promise<Gpu | Obstacle> {
    this.#found ??= Gpu.find((navigator as { gpu?: GPU }).gpu, SHADERS);
    return this.#found;
  }

  async #need(): Promise<Gpu> {
    const found = await this.#find();
    if (typeof found !== "string") return found;
    this.#found = null; // there may be one later
    throw new TabgptError(obstacleSentence(found));
  }

  /** A remembered choice of kernels; the core's own where it no longer offers them. */
  #variants({ features }: Gpu, kernels: string): string {
    return kernels !== "" && isOffered(kernels, gpuVariants(this.#planner), features) ? kernels : "";
  }

  /** What the check finds, "" where it passes or has passed with these kernels on this adapter. */
  async #problem(gpu: Gpu, remembered: string, kernels: string): Promise<string> {
    const key = keyOf(gpu, kernels);
    if (this.#checked.has(key) || remembered.split("\n").includes(key)) return "";
    const open = { ...(await gpu.open()), onPipeline: this.#onPipeline };
    const { problem } = await checkGpu(open, await this.#core(CHECK_BYTES), this.#variants(gpu, kernels));
    if (problem === "") this.#passed(key);
    return problem;
  }

  #passed(key: string): void {
    this.#checked.add(key);
    this.#emit({ event: "checked", key });
  }

  /** A build that runs everywhere: it draws batches and plans, and computes nothing large. */
  #core(bytes: number, maximum = bytes): Promise<Core> {
    const build = BUILDS.find((candidate) => !candidate.simd && !candidate.threads && candidate.address === 32)!;
    return Core.load({ build, baseUrl: this.#wasmUrl, bytes, maximum, threads: 1 });
  }

  /** Bytes of the largest parameter, which the core fills with its starting values. */
  #largestTensor(config: Values): number {
    const [vocab, ctx, width, mlp] = ["vocab_size", "ctx", "d_model", "d_mlp"].map((name) => config[name] as number);
    return 4 * width! * Math.max(vocab!, ctx!, 3 * width!, mlp!);
  }
}

/** The adapter with these shaders. */
function identityOf({ identity }: Gpu): string {
  return `${identity} ${fingerprint([...SHADERS.values()].join(""))}`;
}

/** What a passed check is remembered by. */
function keyOf(gpu: Gpu, kernels: string): string {
  return `${identityOf(gpu)} ${kernels}`.trim();
}

/** FNV-1a of a text: whether the shaders are still those that were checked. */
function fingerprint(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16);
}
