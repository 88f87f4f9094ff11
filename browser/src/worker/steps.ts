/**
 * @file Steps that were asked for and have not answered: on a GPU the next one starts before the last
 * one's loss is read.
 */
import type { StepMetrics } from "../core/index.ts";
import type { Awaitable, RunSession } from "./session.ts";

export interface Answer extends StepMetrics {
  /** Since it was asked for or, if later, since the one before it answered. */
  seconds: number;
}

export class StepsUnderWay {
  #asked: { begun: number; metrics: Awaitable<StepMetrics> }[] = [];
  #answered = 0;

  get count(): number {
    return this.#asked.length;
  }

  ask(session: RunSession): void {
    const begun = performance.now();
    const metrics = session.step();
    // It is awaited later, and may fail before that.
    if (metrics instanceof Promise) metrics.catch(() => undefined);
    this.#asked.push({ begun, metrics });
  }

  /** The oldest one's. */
  async answer(): Promise<Answer> {
    const { begun, metrics } = this.#asked.shift()!;
    const answer = await metrics;
    const since = Math.max(begun, this.#answered);
    this.#answered = performance.now();
    return { ...answer, seconds: (this.#answered - since) / 1000 };
  }

  forget(): void {
    this.#asked = [];
  }
}
