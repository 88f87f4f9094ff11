/**
 * @file A sweep's figures in words.
 */
import type { Row } from "../sweep/protocol.ts";

const NONE = "–";

/** "matmul NN 512 512 512" -> "Product NN, 512 × 512 × 512". */
export function caseLabel(name: string, kind: Row["kind"]): string {
  if (kind === "step") return `A training step of ${name}`;
  const [operation, form, ...sizes] = name.split(" ");
  if (operation === "matmul") return `Product ${form}, ${sizes.join(" × ")}`;
  const [B, H, T, D] = sizes;
  return `Attention ${form}, batch ${B}, ${H} heads of ${D}, context ${T}`;
}

/** GFLOP/s, to three digits. */
export function flopRate(rate: number | null): string {
  if (rate === null) return NONE;
  const giga = rate / 1e9;
  return giga >= 1000 ? Math.round(giga).toLocaleString("en-US") : giga.toPrecision(3);
}

export function times(factor: number | null): string {
  return factor === null ? NONE : `${factor.toPrecision(3)} ×`;
}

export function percent(share: number | null): string {
  return share === null ? NONE : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** Seconds, in the unit that fits. */
export function span(seconds: number | null): string {
  if (seconds === null) return NONE;
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]] as const) {
    if (seconds >= size) return `${(seconds / size).toPrecision(3)} ${unit}`;
  }
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

/** What became of a row. */
export function standing(row: Row): string {
  if (row.skipped) return `skipped: ${row.skipped}`;
  if (row.error === null) return row.ok ? "right" : "wrong: not finite";
  const share = `error ${percent(row.error)} of its bound`;
  if (!row.ok) return row.error > 1 ? `wrong, so no speed is shown: ${share}` : "stopped before it was timed";
  return row.disagree ? `right, ${share}; timestamps and wall clock disagree` : `right, ${share}`;
}
