/**
 * @file One stage on this machine: its first losses against the oracle's, then the seconds of a step.
 */
import { StepsUnderWay } from "../worker/steps.ts";
import type { RunSession } from "../worker/session.ts";

const LEAST_SAMPLE_S = 0.05;
/** V8 first compiles quickly, and well what has run for a while. */
const WARM_UP_S = 0.3;

/** Largest relative difference from the expected losses, over as many steps from the start; NaN counts as infinite. */
export async function firstDifference(session: RunSession, expected: readonly number[]): Promise<number> {
  let worst = 0;
  for (const loss of expected) {
    const difference = Math.abs((await session.step()).loss - loss) / Math.abs(loss);
    worst = Number.isNaN(difference) ? Infinity : Math.max(worst, difference);
  }
  return worst;
}

/** Steps of an open session, timed. */
export class Timed {
  readonly #session: RunSession;
  #calls = 1;

  constructor(session: RunSession) {
    this.#session = session;
  }

  /** Runs until it is warm, and finds how many steps fill a sample. */
  async warmUp(): Promise<void> {
    let best = Infinity;
    for (let left = WARM_UP_S; left > 0; ) {
      const seconds = await this.#steps(1);
      best = Math.min(best, seconds);
      left -= seconds;
    }
    this.#calls = Math.max(1, Math.ceil(LEAST_SAMPLE_S / best));
  }

  /** Seconds a step, over one sample. */
  async sample(): Promise<number> {
    return (await this.#steps(this.#calls)) / this.#calls;
  }

  /** Seconds of that many steps; as many are under way as the session allows, as in training. */
  async #steps(count: number): Promise<number> {
    const underWay = new StepsUnderWay();
    const begun = performance.now();
    for (let asked = 0; asked < count || underWay.count > 0; ) {
      if (asked < count && underWay.count < this.#session.stepsUnderWay) {
        underWay.ask(this.#session);
        asked++;
      } else {
        await underWay.answer();
      }
    }
    return (performance.now() - begun) / 1000;
  }
}
