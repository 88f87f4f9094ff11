/**
 * @file What a sweep's raw samples amount to: pure arithmetic, for the worker, the page and the record alike.
 */
import type { Row } from "./protocol.ts";

/** Of at least one value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Seconds a call: the GPU's own where it told them, else by the wall clock; null where nothing may be shown. */
export function seconds({ ok, gpu_s: gpu, wall_s: wall }: Row): number | null {
  if (!ok) return null;
  const samples = gpu.length > 0 ? gpu : wall;
  return samples.length > 0 ? median(samples) : null;
}

export interface Figures {
  /** Floating-point operations a second; null where nothing may be shown. */
  rate: number | null;
  /** Times as fast as the plain kernel of the same case. */
  toNaive: number | null;
  /** Share of the fastest kernel of the same case. */
  ofBest: number | null;
}

/** The kernels that others are measured against. */
export const PLAIN = ["naive", "plain"];

function rate(row: Row): number | null {
  const time = seconds(row);
  return time === null ? null : row.flops / time;
}

/** A row among those of its case. */
export function figures(row: Row, rows: readonly Row[]): Figures {
  const own = rate(row);
  if (own === null || row.kind === "step") return { rate: own, toNaive: null, ofBest: null };
  const same = rows.filter((other) => other.kind === "kernel" && other.case === row.case);
  const plain = same.find(({ variant }) => PLAIN.includes(variant));
  const plainRate = plain ? rate(plain) : null;
  const best = Math.max(...same.map((other) => rate(other) ?? 0));
  return { rate: own, toNaive: plainRate === null ? null : own / plainRate, ofBest: own / best };
}

/** Whether timestamps and the wall clock tell stories that differ by `factor`. */
export function disagree(gpu: readonly number[], wall: readonly number[], factor: number): boolean {
  if (gpu.length === 0 || wall.length === 0) return false;
  const [a, b] = [median(gpu), median(wall)];
  return Math.max(a, b) >= factor * Math.min(a, b);
}
