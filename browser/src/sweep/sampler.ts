/**
 * @file How one kernel is timed: warmed up, then some samples of as many calls as the clocks need.
 */
import type { Executor } from "../gpu/executor.ts";
import type { GpuClock, Times } from "../gpu/clock.ts";

export interface TimingRules {
  warm_up_s: number;
  samples: number;
  /** Seconds that a sample is to last. */
  sample_s: number;
  least_sample_s: number;
  least_quanta: number;
}

/** Of one submit; more would be a long list to encode, and a short call's sample is long enough by then. */
const MOST_CALLS = 4096;
/** Negative or missing timestamps are dropped, and taken again this often. */
const RETRIES = 3;

export class Sampler {
  readonly gpu: number[] = [];
  readonly wall: number[] = [];
  calls = 1;
  /** Seconds of the fastest call so far. */
  best = Infinity;
  readonly #executor: Executor;
  readonly #clock: GpuClock;
  readonly #rules: TimingRules;
  readonly #wallQuantum: number;

  constructor(executor: Executor, clock: GpuClock, rules: TimingRules, wallQuantum: number) {
    this.#executor = executor;
    this.#clock = clock;
    this.#rules = rules;
    this.#wallQuantum = wallQuantum;
  }

  /** The first call alone, then more and more of them until the warm-up's time is over. */
  async warmUp(): Promise<void> {
    let left = this.#rules.warm_up_s;
    let calls = 1;
    do {
      const times = await this.#take(calls);
      left -= times.wall;
      calls = Math.max(1, Math.min(2 * calls, MOST_CALLS, Math.ceil(left / this.best)));
    } while (left > 0);
    this.calls = Math.min(MOST_CALLS, Math.max(1, Math.ceil((1.2 * Math.max(this.#rules.sample_s, this.#least())) / this.best)));
  }

  /** Adds one sample; one too short for the clock is taken again with more calls. */
  async sample(): Promise<void> {
    for (let tries = 0; ; tries++) {
      const times = await this.#take(this.calls);
      const isBackwards = this.#clock.hasStamps && times.gpu === null;
      if (isBackwards && tries < RETRIES) continue;
      if (this.calls < MOST_CALLS && duration(times) < this.#least()) {
        this.calls = Math.min(2 * this.calls, MOST_CALLS);
        continue;
      }
      if (times.gpu !== null) this.gpu.push(times.gpu / this.calls);
      this.wall.push(times.wall / this.calls);
      return;
    }
  }

  async #take(calls: number): Promise<Times> {
    const times = await this.#clock.time((stamps) => this.#executor.submitTimed("run", calls, stamps));
    this.best = Math.min(this.best, duration(times) / calls);
    return times;
  }

  /** Seconds that a sample must last for its clock. */
  #least(): number {
    const quantum = this.#clock.hasStamps ? (this.#clock.quantum ?? 0) : this.#wallQuantum;
    return Math.max(this.#rules.least_sample_s, this.#rules.least_quanta * quantum);
  }
}

function duration({ gpu, wall }: Times): number {
  return gpu ?? wall;
}
