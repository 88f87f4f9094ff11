/**
 * @file What a run will take, asked of a small scalar instance before anything large is allocated.
 */
import { BUILDS } from "./builds.ts";
import { ConfigHandle, MEMORY_ROLES, type CoreConfig, type MemoryPlan, type Mode } from "./config.ts";
import { Core } from "./core.ts";
import { maximumBytes, type AddressBits } from "./pointers.ts";

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

/** Emscripten's malloc (dlmalloc, sys_alloc's HALF_MAX_SIZE_T) gives less than half the address space in one piece. */
const LARGEST_PIECE = 2 ** 31;

/** Why a build of this width cannot hold a plan, and what would help; "" where it can. */
export function memoryObstacle(memory: MemoryPlan, threads: number, bits: AddressBits): string {
  const remedy = "Choose fewer layers, or a smaller width, batch or context.";
  const bytes = memoryFor(memory, threads);
  const limit = maximumBytes(bits);
  if (bytes > limit) return `This run takes ${gib(bytes)}, but a ${bits}-bit build reaches ${gib(limit)}. ${remedy}`;
  // Activations are several pieces (cpp/src/plan.cpp).
  const large = MEMORY_ROLES.find((role) => !["total", "activations"].includes(role) && memory[role] >= LARGEST_PIECE);
  if (bits === 64 || !large) return "";
  return `The ${large} take ${gib(memory[large])}, but a 32-bit build gives at most ${gib(LARGEST_PIECE)} in one piece. ${remedy}`;
}

function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
}
