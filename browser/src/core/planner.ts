/**
 * @file What a run will take, asked of a small scalar instance before anything large is allocated.
 */
import { BUILDS } from "./builds.ts";
import { ConfigHandle, type CoreConfig, type MemoryPlan, type Mode } from "./config.ts";
import { Core } from "./core.ts";

const MIB = 2 ** 20;
const PLANNER_BYTES = 32 * MIB;

export interface Plan {
  parameters: number;
  /** Bytes by role. */
  memory: MemoryPlan;
}

export class Planner {
  readonly core: Core;

  private constructor(core: Core) {
    this.core = core;
  }

  static async load(baseUrl: string): Promise<Planner> {
    const build = BUILDS.find((b) => !b.simd && !b.threads && b.address === 32)!;
    return new Planner(await Core.load({ build, baseUrl, bytes: PLANNER_BYTES, threads: 1 }));
  }

  /** Throws TabgptError with the core's sentence where the config breaks a rule. */
  plan(config: CoreConfig, mode: Mode, threads: number, tokens: number): Plan {
    const handle = new ConfigHandle(this.core, config);
    try {
      return { parameters: handle.parameters, memory: handle.memory(mode, threads, tokens) };
    } finally {
      handle.free();
    }
  }

  /** Learning rates of some 0-based steps. */
  learningRates(config: CoreConfig, steps: number[]): number[] {
    const handle = new ConfigHandle(this.core, config);
    try {
      return steps.map((step) => handle.learningRate(step));
    } finally {
      handle.free();
    }
  }
}

/**
 * Bytes of WASM memory for a plan: the session, code and its data, a stack a thread, and the host's
 * arguments (the corpus is copied once more while it is set).
 */
export function memoryFor(memory: MemoryPlan, threads: number): number {
  const fixed = 32 * MIB + threads * 2 * MIB;
  return Math.ceil(memory.total * 1.02) + memory.tokens + fixed;
}
