/**
 * @file metrics.jsonl, a line a step, as reference/tabgpt/train.py writes it; and its way back to points.
 */
import type { EvalPoint, MetricPoint } from "./protocol.ts";

export interface MetricLine extends MetricPoint {
  wallSeconds: number;
  valLoss?: number;
}

interface Stored {
  step: number;
  loss: number;
  lr: number;
  grad_norm: number;
  tokens_per_s: number;
  wall_s: number;
  val_loss?: number;
}

export function toJsonl(lines: MetricLine[]): string {
  return lines
    .map(({ step, loss, lr, gradNorm, tokensPerSecond, wallSeconds, valLoss }) => {
      const stored: Stored = {
        step,
        loss,
        lr,
        grad_norm: gradNorm,
        tokens_per_s: Math.round(tokensPerSecond * 10) / 10,
        wall_s: Math.round(wallSeconds * 1000) / 1000,
        ...(valLoss === undefined ? {} : { val_loss: valLoss }),
      };
      return `${JSON.stringify(stored)}\n`;
    })
    .join("");
}

export function fromJsonl(jsonl: string): MetricLine[] {
  return jsonl
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const stored = JSON.parse(line) as Stored;
      return {
        step: stored.step,
        loss: stored.loss,
        lr: stored.lr,
        gradNorm: stored.grad_norm,
        tokensPerSecond: stored.tokens_per_s,
        wallSeconds: stored.wall_s,
        ...(stored.val_loss === undefined ? {} : { valLoss: stored.val_loss }),
      };
    });
}

export function evalPoints(lines: MetricLine[], totalSteps: number): EvalPoint[] {
  return lines.flatMap(({ step, valLoss }) =>
    valLoss === undefined ? [] : [{ step, valLoss, whole: step === totalSteps }],
  );
}
