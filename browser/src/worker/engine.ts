/**
 * @file A session of the size that its plan asks for, on the build that the page chose.
 */
import { BUILDS, Core, memoryFor, Planner, Session, TabgptError, type Mode } from "../core/index.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import { DEFAULT_PRESET, presetValues, trainConfig, type Values } from "../presets.ts";
import type { Engine, PlanFacts } from "./protocol.ts";
import type { RunSession } from "./session.ts";

const CURVE_POINTS = 61;

export class Engines {
  readonly #wasmUrl: string;
  readonly #planner: Planner;

  private constructor(wasmUrl: string, planner: Planner) {
    this.#wasmUrl = wasmUrl;
    this.#planner = planner;
  }

  static async load(wasmUrl: string): Promise<Engines> {
    return new Engines(wasmUrl, await Planner.load(wasmUrl));
  }

  /** Sizes and schedule of a run that is not there yet. */
  facts(config: Values, tokens: number, threads: number): PlanFacts {
    const { parameters, memory } = this.#planner.plan(config, "train", threads, tokens);
    const last = (config.steps as number) - 1;
    const steps = Array.from({ length: CURVE_POINTS }, (_, i) => Math.round((last * i) / (CURVE_POINTS - 1)));
    const curve = this.#planner.learningRates(config, steps);
    return { parameters, memory, wasmBytes: memoryFor(memory, threads), curve };
  }

  async open(info: RunInfo, mode: Mode, tokens: number, engine: Engine): Promise<RunSession> {
    const build = BUILDS.find(({ name }) => name === engine.build);
    if (!build) throw new TabgptError(`there is no build "${engine.build}"; there are ${BUILDS.map((b) => b.name).join(", ")}`);
    // A model that came without a recipe still needs one to be configured; it is never trained with it.
    const config = { ...(info.train ?? trainConfig(presetValues(DEFAULT_PRESET))), ...info.model };
    const { memory } = this.#planner.plan(config, mode, engine.threads, tokens);
    const bytes = memoryFor(memory, engine.threads);
    const core = await Core.load({ build, baseUrl: this.#wasmUrl, bytes, threads: engine.threads });
    return new Session(core, config, mode, engine.threads);
  }
}
