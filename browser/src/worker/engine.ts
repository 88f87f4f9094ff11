/**
 * @file A session of the size that its plan asks for, on what the page chose: a WASM build, or the GPU.
 */
import {
  BUILDS,
  Core,
  detectFeatures,
  fit,
  memoryFor,
  Planner,
  Session,
  TabgptError,
  type Features,
  type Fit,
  type MemoryPlan,
  type Mode,
} from "../core/index.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import { DEFAULT_PRESET, presetValues, trainConfig, type Values } from "../presets.ts";
import type { Engine, GpuVerdict, PlanFacts, RunEvent, TunedKernels } from "./protocol.ts";
import { Gpus } from "./gpus.ts";
import type { RunSession } from "./session.ts";

const CURVE_POINTS = 61;

export class Engines {
  readonly #wasmUrl: string;
  readonly #planner: Planner;
  readonly #features: Features;
  readonly #gpus: Gpus;

  private constructor(wasmUrl: string, planner: Planner, features: Features, emit: (event: RunEvent) => void) {
    this.#wasmUrl = wasmUrl;
    this.#planner = planner;
    this.#features = features;
    this.#gpus = new Gpus(wasmUrl, planner.core, emit);
  }

  static async load(wasmUrl: string, emit: (event: RunEvent) => void): Promise<Engines> {
    return new Engines(wasmUrl, await Planner.load(wasmUrl), await detectFeatures(), emit);
  }

  /** What the page may do with the GPU; `checked` is what it remembers of an earlier check. */
  gpu(checked: string): Promise<GpuVerdict> {
    return this.#gpus.verdict(checked);
  }

  tune(config: Values): Promise<TunedKernels> {
    return this.#gpus.tune(config);
  }

  cancelTuning(): void {
    this.#gpus.cancelTuning();
  }

  /** Sizes and schedule of a run that is not there yet. */
  async facts(config: Values, tokens: number, engine: Engine): Promise<PlanFacts> {
    const { parameters, memory: onCpu } = this.#planner.plan(config, "train", engine.threads, tokens);
    const memory: MemoryPlan = engine.gpu ? await this.#gpus.memory(config, engine.kernels) : onCpu;
    const last = (config.steps as number) - 1;
    const steps = Array.from({ length: CURVE_POINTS }, (_, i) => Math.round((last * i) / (CURVE_POINTS - 1)));
    const curve = this.#planner.learningRates(config, steps);
    if (engine.gpu) return { parameters, memory, hostBytes: memory.total, curve, bits: 32, problem: "" };
    const { build, problem } = this.#fit(memory, engine);
    return { parameters, memory, hostBytes: memoryFor(memory, engine.threads), curve, bits: build.address, problem };
  }

  async open(info: RunInfo, mode: Mode, tokens: number, engine: Engine): Promise<RunSession> {
    // A model that came without a recipe still needs one to be configured; it is never trained with it.
    const config = { ...(info.train ?? trainConfig(presetValues(DEFAULT_PRESET))), ...info.model };
    if (engine.gpu) return this.#gpus.open(config, mode, tokens, engine);
    const { memory } = this.#planner.plan(config, mode, engine.threads, tokens);
    const { build, problem } = this.#fit(memory, engine);
    if (problem) throw new TabgptError(problem);
    const bytes = memoryFor(memory, engine.threads);
    const core = await Core.load({ build, baseUrl: this.#wasmUrl, bytes, threads: engine.threads });
    return new Session(core, config, mode, engine.threads);
  }

  /** The build that a plan gets of the chosen kind and width. */
  #fit(memory: MemoryPlan, { build: name, width, threads }: Engine): Fit {
    const kind = BUILDS.find((candidate) => candidate.name === name);
    if (!kind) throw new TabgptError(`there is no build "${name}"; there are ${BUILDS.map((build) => build.name).join(", ")}`);
    return fit(kind, width, memory, threads, this.#features);
  }
}
