/**
 * @file Figures as the page writes them: few digits, a unit, never NaN.
 */

const NONE = "–";

function finite(value: number | null | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** 1234567 -> "1,234,567". */
export function count(value: number | null | undefined): string {
  return finite(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

/** Parameters and tokens: "473 M", "12.3 k". */
export function short(value: number | null | undefined): string {
  if (!finite(value)) return NONE;
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (Math.abs(value) >= size) return `${significant(value / size)} ${unit}`;
  }
  return significant(value);
}

export function bytes(value: number | null | undefined): string {
  if (!finite(value)) return NONE;
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (value >= size) return `${significant(value / size)} ${unit}`;
  }
  return `${value} B`;
}

function significant(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** "1 layer", "3 layers". */
export function plural(value: number | undefined, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** A loss, in nats: "2.3456"; one that ran away: "3.03e+16". */
export function loss(value: number | null | undefined): string {
  if (!finite(value)) return NONE;
  return Math.abs(value) < 1e4 ? value.toFixed(4) : value.toExponential(2);
}

/** An axis's mark: as few digits as tell it from the next. */
export function mark(value: number): string {
  if (value === 0) return "0";
  const tidy = Number(value.toPrecision(3));
  return Math.abs(tidy) < 0.01 || Math.abs(tidy) >= 1e4 ? tidy.toExponential() : String(tidy);
}

/** A learning rate or norm: three significant digits. */
export function scientific(value: number | null | undefined): string {
  if (!finite(value)) return NONE;
  if (value === 0) return "0";
  return Math.abs(value) < 0.01 || Math.abs(value) >= 1e4 ? value.toExponential(2) : value.toPrecision(3);
}

/** Seconds: "42 s", "3 min 20 s", "2 h 05 min". */
export function duration(seconds: number | null | undefined): string {
  if (!finite(seconds) || seconds < 0) return NONE;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** A field's value as it is typed: 0.0003 stays 0.0003, 1e-8 stays 1e-8. */
export function typed(value: number | string): string {
  if (typeof value === "string") return value;
  return value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential().replace("e-0", "e-") : String(value);
}

/** What was typed, as a number; NaN for what is none, "" for nothing. */
export function parse(text: string): number | "" {
  const trimmed = text.trim();
  return trimmed === "" ? "" : Number(trimmed);
}

export function moment(time: number): string {
  return new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
