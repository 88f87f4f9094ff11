/**
 * @file A run's curves, as columns that uPlot draws; a pure reducer over the worker's events.
 */
import type { EvalPoint, MetricPoint } from "../worker/protocol.ts";

/** Share of the newest step in the smoothed loss and speed. */
const NEWEST = 0.15;

export class Series {
  readonly step: number[] = [];
  readonly loss: number[] = [];
  /** The loss, exponentially averaged. */
  readonly smooth: number[] = [];
  readonly val: (number | null)[] = [];
  readonly lr: number[] = [];
  readonly gradNorm: number[] = [];
  readonly speed: number[] = [];

  addSteps(points: MetricPoint[]): void {
    for (const { step, loss, lr, gradNorm, tokensPerSecond } of points) {
      this.step.push(step);
      this.loss.push(loss);
      this.smooth.push(blend(this.smooth.at(-1), loss));
      this.val.push(null);
      this.lr.push(lr);
      this.gradNorm.push(gradNorm);
      this.speed.push(blend(this.speed.at(-1), tokensPerSecond));
    }
  }

  /** A validation loss belongs to a step that is there already; others are dropped. */
  addEval({ step, valLoss }: EvalPoint): void {
    const index = this.step.lastIndexOf(step);
    if (index >= 0) this.val[index] = valLoss;
  }

  get lastVal(): number | null {
    return this.val.findLast((value) => value !== null) ?? null;
  }
}

function blend(last: number | undefined, next: number): number {
  return last === undefined ? next : last + NEWEST * (next - last);
}
