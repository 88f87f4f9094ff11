/**
 * @file The core's configuration handle: checked fields, sizes, schedule.
 */
import type { Core } from "./core.ts";

/** Every field of presets.json's groups "model" and "train", and vocab_size. */
export type CoreConfig = Readonly<Record<string, number | string>>;

export type Mode = "infer" | "train" | "probe";

export const MEMORY_ROLES = [
  "parameters",
  "gradients",
  "adam_m",
  "adam_v",
  "activations",
  "kv_cache",
  "workspace",
  "tokens",
  "total",
] as const;
export type MemoryRole = (typeof MEMORY_ROLES)[number];
export type MemoryPlan = Record<MemoryRole, number>;

export class ConfigHandle {
  readonly pointer: number;
  readonly #core: Core;

  /** Sets every field that the core knows; a missing or refused one throws TabgptError. */
  constructor(core: Core, config: CoreConfig) {
    this.#core = core;
    this.pointer = core.abi.tabgpt_config_new();
    if (this.pointer === 0) core.fail("making a config");
    try {
      for (const name of fieldNames(core)) {
        const value = config[name];
        if (value !== undefined) this.#set(name, value);
      }
      core.check(core.abi.tabgpt_config_check(this.pointer), "checking the config");
    } catch (error) {
      this.free();
      throw error;
    }
  }

  #set(name: string, value: number | string): void {
    const { abi } = this.#core;
    const status =
      typeof value === "string"
        ? this.#core.withArrays([name, value], (key, text) => abi.tabgpt_config_set_choice(this.pointer, key!, text!))
        : this.#core.withArrays([name], (key) => abi.tabgpt_config_set(this.pointer, key!, value));
    this.#core.check(status, `setting ${name}`);
  }

  /** Number of parameters without padding. */
  get parameters(): number {
    return this.#number(this.#core.abi.tabgpt_config_parameters(this.pointer), "counting parameters");
  }

  /** Bytes by role that a session would hold, before anything is allocated. */
  memory(mode: Mode, threads: number, tokens: number): MemoryPlan {
    const { abi } = this.#core;
    const bytes = (role: MemoryRole): number =>
      this.#core.withArrays([mode, role], (m, r) => abi.tabgpt_memory(this.pointer, m!, threads, tokens, r!));
    return Object.fromEntries(
      MEMORY_ROLES.map((role) => [role, this.#number(bytes(role), `planning ${role}`)]),
    ) as MemoryPlan;
  }

  /** Learning rate of a 0-based step. */
  learningRate(step: number): number {
    return this.#number(this.#core.abi.tabgpt_learning_rate(this.pointer, step), "the learning rate");
  }

  free(): void {
    this.#core.abi.tabgpt_config_free(this.pointer);
  }

  #number(value: number, what: string): number {
    return Number.isNaN(value) ? this.#core.fail(what) : value;
  }
}

/** The fields that tabgpt_config_set knows, in the core's order. */
export function fieldNames(core: Core): string[] {
  const count = core.abi.tabgpt_config_field_count();
  return Array.from({ length: count }, (_, i) => core.text(core.abi.tabgpt_config_field_name(i)));
}
