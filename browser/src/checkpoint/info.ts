/**
 * @file What a checkpoint says of itself: the metadata of model.safetensors, or config.json where
 * transformers wrote it. Accepts what reference/tabgpt/checkpoint.py accepts, and nothing else.
 */
import { messageOf, TabgptError } from "../core/errors.ts";
import { type Field, fieldsOf, problemWith, problemWithHeads, type Values } from "../presets.ts";
import { tokenizerFrom, type TokenizerSpec } from "../tokenizer.ts";
import { fromGpt2Config } from "./huggingface.ts";

export const SCHEMA = "1";

export interface CorpusRef {
  path: string;
  sha256: string;
  name: string;
}

/** All of a run but its tensors. `train` and `run` are null for a model that came without them. */
export interface RunInfo {
  model: Values;
  tokenizer: TokenizerSpec;
  train: Values | null;
  run: Values | null;
  corpus: CorpusRef | null;
  /** Optimizer steps done. */
  step: number;
}

/** Philox's counter holds the step in one word. */
const MAX_STEP = 2 ** 32 - 1;
/** float32 logits count ids exactly up to here. */
const VOCABULARY = { name: "vocab_size", type: "int", min: 1, max: 2 ** 24 } as Field;
const HALF_CHARACTER = /\p{Surrogate}/u;

function parseObject(text: string, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TabgptError(`${what} is no JSON (${messageOf(error)}): ${text.slice(0, 60)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TabgptError(`${what} is no JSON object: ${text.slice(0, 60)}`);
  }
  return value as Record<string, unknown>;
}

/** Every field of a group and nothing else, each in its range. */
function checkFields(fields: Field[], values: Record<string, unknown>): Values {
  for (const name of Object.keys(values)) {
    if (!fields.some((field) => field.name === name)) throw new TabgptError(`the checkpoint has the unknown key "${name}"`);
  }
  for (const field of fields) {
    const problem = problemWith(field, values[field.name]);
    if (problem) throw new TabgptError(`the checkpoint's ${field.name}: ${problem}`);
  }
  return values as Values;
}

/** A sound model's config, its d_mlp resolved. */
function modelOf(values: Record<string, unknown>): Values {
  const model = checkFields([VOCABULARY, ...fieldsOf("model")], values);
  const problem = problemWithHeads(model.n_head as number, model.d_model as number);
  if (problem) throw new TabgptError(`the checkpoint's n_head: ${problem}`);
  return { ...model, d_mlp: model.d_mlp || 4 * (model.d_model as number) };
}

function tokenizerOf(spec: Record<string, unknown>, model: Values): TokenizerSpec {
  const { kind, vocab } = spec;
  if (kind === "none") return { kind };
  if (!(kind === "byte" || (kind === "char" && typeof vocab === "string"))) {
    throw new TabgptError(`the checkpoint's tokenizer must have "kind" char (with "vocab"), byte or none`);
  }
  const tokenizer = tokenizerFrom(kind === "byte" ? { kind } : { kind, vocab: vocab as string });
  if (tokenizer.vocabSize !== model.vocab_size) {
    throw new TabgptError(
      `vocabulary mismatch: the model has vocab_size ${model.vocab_size} and its ${kind} tokenizer ${tokenizer.vocabSize}`,
    );
  }
  return tokenizer.spec;
}

function stepOf(text: string, train: Values | null): number {
  if (!/^[0-9]{1,10}$/.test(text)) throw new TabgptError(`the checkpoint's "step" is ${JSON.stringify(text)}, not a whole number`);
  const step = Number(text);
  const last = train ? (train.steps as number) : MAX_STEP;
  if (step > last) throw new TabgptError(`the checkpoint's "step" is ${step}, past its last step ${last}`);
  return step;
}

function corpusOf(values: Record<string, unknown>): CorpusRef {
  const text = (key: string): string => {
    const value = values[key] ?? "";
    if (values[key] === null || typeof value !== "string" || HALF_CHARACTER.test(value)) {
      throw new TabgptError(`the checkpoint's corpus has the ${key} ${JSON.stringify(values[key])}, not a text`);
    }
    return value;
  };
  return { path: text("path"), sha256: text("sha256"), name: text("name") };
}

/** From the metadata of model.safetensors. Throws TabgptError. */
export function infoOf(metadata: Record<string, string>): RunInfo {
  if (metadata.tabgpt_schema !== SCHEMA) {
    throw new TabgptError(
      `the checkpoint has tabgpt_schema ${JSON.stringify(metadata.tabgpt_schema)}; this version reads ${SCHEMA}`,
    );
  }
  const values = (key: string): Record<string, unknown> => {
    const text = metadata[key];
    if (text === undefined) throw new TabgptError(`the checkpoint's metadata has no "${key}"`);
    return parseObject(text, `the checkpoint's "${key}"`);
  };
  const group = (key: "train" | "run"): Values | null =>
    metadata[key] === undefined ? null : checkFields(fieldsOf(key), values(key));
  const model = modelOf(values("config"));
  const train = group("train");
  optimizerOf(metadata);
  return {
    model,
    train,
    run: group("run"),
    tokenizer: tokenizerOf(values("tokenizer"), model),
    corpus: metadata.corpus === undefined ? null : corpusOf(values("corpus")),
    step: stepOf(metadata.step ?? "0", train),
  };
}

/** The moments' file; null where there are none. */
export function optimizerOf({ optimizer }: Record<string, string>): string | null {
  if (optimizer !== undefined && !/^optimizer-[0-9]+\.safetensors$/.test(optimizer)) {
    throw new TabgptError(`the checkpoint's optimizer file has the odd name ${JSON.stringify(optimizer)}`);
  }
  return optimizer ?? null;
}

/** From the config.json of a folder that transformers saved. Throws TabgptError. */
export function foreignInfo(config: string): RunInfo {
  const model = modelOf(fromGpt2Config(parseObject(config, "config.json")));
  return { model, tokenizer: { kind: "none" }, train: null, run: null, corpus: null, step: 0 };
}
