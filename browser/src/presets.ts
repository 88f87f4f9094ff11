/**
 * @file Hyper-parameters from reference/tabgpt/presets.json: the one place that types a default. This
 * file reads it, checks values against it, and groups them as the checkpoint stores them.
 */
import file from "../../reference/tabgpt/presets.json" with { type: "json" };

export type Group = "model" | "train" | "run" | "sample";
export type Value = number | string;
export type Values = Record<string, Value>;

export interface Field {
  name: string;
  group: Group;
  type: "int" | "float" | "choice";
  default: Value;
  label: string;
  help: string;
  /** Inclusive limits. */
  min?: number;
  max?: number;
  /** Exclusive limits. */
  above?: number;
  below?: number;
  choices?: string[];
}

export const FIELDS = file.fields as Field[];
export const PRESETS = file.presets as Record<string, { title: string; values: Values }>;
export const DEFAULT_PRESET: string = file.default_preset;
export const MAX_HEAD_DIM: number = file.max_head_dim;
/** The last N div this many tokens are the validation split. */
export const VALIDATION_DIVISOR = Math.round(1 / file.validation_fraction);

export function fieldsOf(group: Group): Field[] {
  return FIELDS.filter((field) => field.group === group);
}

export function fieldNamed(name: string): Field {
  const field = FIELDS.find((candidate) => candidate.name === name);
  if (!field) throw new Error(`presets.json has no field "${name}"`);
  return field;
}

/** Every field's value under a preset. */
export function presetValues(name: string): Values {
  const preset = PRESETS[name];
  if (!preset) throw new Error(`presets.json has no preset "${name}"`);
  return { ...Object.fromEntries(FIELDS.map((field) => [field.name, field.default])), ...preset.values };
}

/** The limits in words: "from 1 to 65536", "above 0 and at most 1". */
export function rangeText(field: Field): string {
  if (field.choices) return `one of ${field.choices.join(", ")}`;
  if (field.min !== undefined && field.max !== undefined) return `from ${field.min} to ${field.max}`;
  const low = field.above !== undefined ? `above ${field.above}` : `at least ${field.min}`;
  const high = field.below !== undefined ? `below ${field.below}` : `at most ${field.max}`;
  return `${low} and ${high}`;
}

/** What is wrong with a value, as a sentence to stand beside its field; "" where nothing is. */
export function problemWith(field: Field, value: unknown): string {
  const must = `must be ${field.type === "int" ? "a whole number " : ""}${rangeText(field)}`;
  if (field.choices) return field.choices.includes(value as string) ? "" : `${JSON.stringify(value)} ${must}`;
  if (value === "" || value === null || value === undefined) return `Empty; ${must}.`;
  if (typeof value !== "number" || !Number.isFinite(value)) return `${String(value)} is not a number; ${must}.`;
  const fits =
    (field.type === "float" || Number.isInteger(value)) &&
    !(field.min !== undefined && value < field.min) &&
    !(field.max !== undefined && value > field.max) &&
    !(field.above !== undefined && value <= field.above) &&
    !(field.below !== undefined && value >= field.below);
  return fits ? "" : `${value} is out of range; ${must}.`;
}

/** A problem a field: each alone, then the rules between heads and width. */
export function problemsIn(values: Record<string, unknown>): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const field of FIELDS) {
    const problem = problemWith(field, values[field.name]);
    if (problem) problems[field.name] = problem;
  }
  if (problems.n_head || problems.d_model) return problems;
  const problem = problemWithHeads(values.n_head as number, values.d_model as number);
  if (problem) problems.n_head = problem;
  return problems;
}

/** Heads divide the width, and a head has no more channels than a kernel keeps; "" where that is so. */
export function problemWithHeads(heads: number, width: number): string {
  if (width % heads !== 0) return `${heads} heads do not divide a width of ${width}; choose a divisor of ${width}.`;
  if (width / heads <= MAX_HEAD_DIM) return "";
  let least = Math.ceil(width / MAX_HEAD_DIM);
  while (width % least !== 0) least++;
  return `${width / heads} channels a head, at most ${MAX_HEAD_DIM}; use ${least} heads.`;
}

function pick(values: Values, group: Group): Values {
  return Object.fromEntries(fieldsOf(group).map((field) => [field.name, values[field.name]!]));
}

/** The model's config as checkpoints store it: vocab_size added, d_mlp resolved. */
export function modelConfig(values: Values, vocabSize: number): Values {
  const model = pick(values, "model");
  return { vocab_size: vocabSize, ...model, d_mlp: model.d_mlp || 4 * (model.d_model as number) };
}

export function trainConfig(values: Values): Values {
  return pick(values, "train");
}

export function runConfig(values: Values): Values {
  return pick(values, "run");
}
