/**
 * @file The stages of the core and what was recorded of them: bench/stages.json, which bench/evolution.py
 * measures, and its record.
 */
import table from "../../../bench/stages.json" with { type: "json" };

/** What computes a stage: NumPy, the native core, a WASM build in a tab, a GPU, PyTorch. */
export type Host = "numpy" | "native" | "tab" | "gpu" | "torch";

export interface Stage {
  name: string;
  label: string;
  host: Host;
  build?: string;
  threads?: number;
  did: string;
}

/** A stage's line of the record, for one preset. */
export interface Recorded {
  preset: string;
  stage: string;
  /** Seconds a step of each sample. */
  seconds: number[];
  /** Speed as a multiple of the baseline's: pair ratios of one run. */
  ratio: { median: number; q1: number; q3: number };
  losses: number[];
  losses_relative: number;
  /** What it gained over other stages, where that is held to a least. */
  gains?: Gain[];
}

/** `why` is empty where the gain is as large as its cause explains, null where nothing explains less. */
export interface Gain {
  over: string;
  least: number;
  median: number;
  why: string | null;
}

export const STAGES = table.stages as Stage[];
export const PRESETS: string[] = table.presets;
export const BASELINE: string = table.baseline;
export const ORACLE = "oracle";
/** Relative, of a stage's first losses against the oracle's. */
export const LOSS_BOUND: number = table.loss_bound;

interface RunRecord {
  command: string;
  commit: string;
  date: string;
  machine: { cpu: string; cores: number; browser?: string; adapter?: string; software_adapter?: boolean };
  results: Recorded[];
  verdict: { ok: boolean; why: string };
}
const files = import.meta.glob<RunRecord>("../../../bench/records/evolution.json", { eager: true, import: "default" });

/** What was measured last; null in a checkout without the record. */
export const RECORD: RunRecord | null = Object.values(files)[0] ?? null;

/** Null where the record has no such line: that stage was not measured. */
export function recorded(preset: string, stage: string): Recorded | null {
  return RECORD?.results.find((row) => row.preset === preset && row.stage === stage) ?? null;
}

/** Why this stage gained less than its cause explains, a sentence each; none where it did not. */
export function reasons(row: Recorded | null): string[] {
  const missed = (row?.gains ?? []).filter(({ why }) => why !== "");
  return missed.map(({ why, over, median, least }) => why ?? `${median.toFixed(2)} × of ${over}, below ${least} ×, unexplained.`);
}

/** The oracle's first losses at a preset. */
export function oracleLosses(preset: string): number[] {
  return recorded(preset, ORACLE)?.losses ?? [];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Median of the pairs' baseline / mine, for as many rounds as both have. */
export function pairRatio(mine: readonly number[], baseline: readonly number[]): number | null {
  const rounds = Math.min(mine.length, baseline.length);
  return rounds === 0 ? null : median(mine.slice(0, rounds).map((seconds, i) => baseline[i]! / seconds));
}
