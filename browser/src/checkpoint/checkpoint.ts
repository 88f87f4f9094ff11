/**
 * @file A run as files: the folder that `tabgpt train` writes, here as names and bytes. The format is
 * reference/tabgpt/checkpoint.py's; either side resumes the other's runs.
 */
import { messageOf, TabgptError } from "../core/errors.ts";
import { problemWith, fieldsOf, type Values } from "../presets.ts";
import { tokenizerFrom, type TokenizerSpec } from "../tokenizer.ts";
import { fromGpt2Config, toGpt2Config } from "./huggingface.ts";
import { readMetadata, readSafetensors, toFloat32, writeSafetensors, type NamedTensor, type TensorFile } from "./safetensors.ts";

export const MODEL_FILE = "model.safetensors";
export const CONFIG_FILE = "config.json";
export const METRICS_FILE = "metrics.jsonl";
const SCHEMA = "1";

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

function tokensSeen({ model, train, step }: RunInfo): number {
  if (!train) return 0;
  return step * (train.grad_accum as number) * (train.batch_size as number) * (model.ctx as number);
}

export interface Checkpoint {
  info: RunInfo;
  weights: NamedTensor[];
  /** m:<name> and v:<name>; null where the run cannot be resumed exactly. */
  moments: NamedTensor[] | null;
  /** metrics.jsonl, a line a step. */
  metrics: string;
}

/** A folder's files in the order in which they must be written: the model commits the checkpoint. */
export type FileParts = { name: string; parts: Uint8Array<ArrayBuffer>[] }[];
export type Files = Map<string, Uint8Array<ArrayBuffer>>;

export function optimizerFile(step: number): string {
  return `optimizer-${String(step).padStart(6, "0")}.safetensors`;
}

export function writeCheckpoint({ info, weights, moments, metrics }: Checkpoint, producer: string): FileParts {
  const text = (value: string): Uint8Array<ArrayBuffer>[] => [new TextEncoder().encode(value)];
  const optimizer = optimizerFile(info.step);
  const metadata: Record<string, string> = {
    format: "pt",
    producer,
    tabgpt_schema: SCHEMA,
    config: JSON.stringify(info.model),
    tokenizer: JSON.stringify(info.tokenizer),
    step: String(info.step),
    tokens_seen: String(tokensSeen(info)),
    backend: "wasm",
  };
  if (info.train) Object.assign(metadata, { train: JSON.stringify(info.train), seed: String(info.train.seed) });
  if (info.run) metadata.run = JSON.stringify(info.run);
  if (info.corpus) metadata.corpus = JSON.stringify(info.corpus);
  const files: FileParts = [];
  if (moments) {
    metadata.optimizer = optimizer;
    const optimizerMetadata = {
      format: "pt",
      tabgpt_schema: SCHEMA,
      step: String(info.step),
    };
    files.push({ name: optimizer, parts: writeSafetensors(moments, optimizerMetadata) });
  }
  files.push({ name: CONFIG_FILE, parts: text(`${JSON.stringify(toGpt2Config(info.model), null, 2)}\n`) });
  if (metrics) files.push({ name: METRICS_FILE, parts: text(metrics) });
  files.push({ name: MODEL_FILE, parts: writeSafetensors(weights, metadata) });
  return files;
}

/** Parses a folder's files. Throws TabgptError that names the file or tensor and what is wrong. */
export function readCheckpoint(files: Files): Checkpoint {
  const model = files.get(MODEL_FILE);
  if (!model) {
    throw new TabgptError(`there is no ${MODEL_FILE} among ${[...files.keys()].join(", ") || "the files"}`);
  }
  const file = readSafetensors(model);
  const info = file.metadata.tabgpt_schema === undefined ? foreignInfo(files) : infoOf(file.metadata);
  return {
    info,
    weights: weightsOf(file),
    moments: momentsOf(files, file.metadata, info.step),
    metrics: cutMetrics(new TextDecoder().decode(files.get(METRICS_FILE) ?? new Uint8Array()), info.step),
  };
}

/** Only what a saved run says of itself; reads the file's header, not its tensors. */
export async function readInfo(model: Blob): Promise<{ info: RunInfo; optimizer: string | null }> {
  const metadata = await readMetadata(model, MODEL_FILE);
  return { info: infoOf(metadata), optimizer: metadata.optimizer ?? null };
}

function infoOf(metadata: Record<string, string>): RunInfo {
  if (metadata.tabgpt_schema !== SCHEMA) {
    throw new TabgptError(
      `the checkpoint has tabgpt_schema ${JSON.stringify(metadata.tabgpt_schema)}; this version reads ${SCHEMA}`,
    );
  }
  const parse = <T>(key: string): T | null => {
    const text = metadata[key];
    if (text === undefined) return null;
    try {
      return JSON.parse(text) as T;
    } catch (error) {
      throw new TabgptError(`the checkpoint's "${key}" is no JSON (${messageOf(error)}): ${text.slice(0, 60)}`);
    }
  };
  const model = parse<Values>("config");
  if (!model) throw new TabgptError(`the checkpoint's metadata has no "config"`);
  const train = parse<Values>("train");
  const run = parse<Values>("run");
  checkFields("model", model);
  if (train) checkFields("train", train);
  if (run) checkFields("run", run);
  const tokenizer = parse<TokenizerSpec>("tokenizer") ?? { kind: "none" };
  if (tokenizer.kind !== "none") {
    const { vocabSize } = tokenizerFrom(tokenizer);
    if (vocabSize !== model.vocab_size) {
      throw new TabgptError(
        `vocabulary mismatch: the model has vocab_size ${model.vocab_size} and its ${tokenizer.kind} tokenizer ${vocabSize}`,
      );
    }
  }
  return {
    model,
    train,
    run,
    tokenizer,
    corpus: parse<CorpusRef>("corpus"),
    step: count(metadata, "step"),
  };
}

function checkFields(group: "model" | "train" | "run", values: Values): void {
  for (const field of fieldsOf(group)) {
    const problem = problemWith(field, values[field.name]);
    if (problem) throw new TabgptError(`the checkpoint's ${field.name}: ${problem}`);
  }
}

function count(metadata: Record<string, string>, key: string): number {
  const value = Number(metadata[key] ?? "0");
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new TabgptError(`the checkpoint's "${key}" is ${JSON.stringify(metadata[key])}, not a whole number`);
  }
  return value;
}

/** Of a file that transformers saved: config.json beside it says what it is. */
function foreignInfo(files: Files): RunInfo {
  const config = files.get(CONFIG_FILE);
  if (!config) {
    throw new TabgptError(
      `${MODEL_FILE} carries no tabgpt metadata and no ${CONFIG_FILE} lies beside it; upload both in one zip`,
    );
  }
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(new TextDecoder().decode(config)) as Record<string, unknown>;
  } catch (error) {
    throw new TabgptError(`${CONFIG_FILE} is no JSON (${messageOf(error)})`);
  }
  const model = fromGpt2Config(parsed);
  return { model, tokenizer: { kind: "none" }, train: null, run: null, corpus: null, step: 0 };
}

/** transformers' causal-mask buffers, which old versions saved. */
const MASK_BUFFER = /\.attn\.(bias|masked_bias)$/;
const HEAD = "lm_head.weight";
const EMBEDDING = "transformer.wte.weight";

/** Weights by full name; masks dropped, a tied head dropped, an untied one refused. */
function weightsOf(file: TensorFile): NamedTensor[] {
  const weights: NamedTensor[] = [];
  for (const [stored, entry] of file.tensors) {
    if (MASK_BUFFER.test(stored) || stored === HEAD) continue;
    const name = stored.startsWith("transformer.") ? stored : `transformer.${stored}`;
    weights.push({ name, shape: entry.shape, values: toFloat32(name, entry) });
  }
  const head = file.tensors.get(HEAD);
  const embedding = weights.find(({ name }) => name === EMBEDDING);
  if (head && embedding) {
    const values = toFloat32(HEAD, head);
    if (values.length !== embedding.values.length || values.some((value, i) => value !== embedding.values[i])) {
      throw new TabgptError(`"${HEAD}" differs from "${EMBEDDING}"; tabgpt's model ties them`);
    }
  }
  return weights;
}

function momentsOf(files: Files, metadata: Record<string, string>, step: number): NamedTensor[] | null {
  const name = metadata.optimizer;
  if (name === undefined) return null;
  const bytes = files.get(name);
  if (!bytes) return null;
  const file = readSafetensors(bytes, name);
  if (Number(file.metadata.step) !== step) {
    throw new TabgptError(`${name} is of step ${file.metadata.step}, the model of step ${step}; the run is damaged`);
  }
  return [...file.tensors].map(([tensor, entry]) => ({ name: tensor, shape: entry.shape, values: toFloat32(tensor, entry) }));
}

/** metrics.jsonl without the lines past a step: a run that was killed wrote more than it saved. */
export function cutMetrics(jsonl: string, step: number): string {
  const kept = jsonl.split("\n").filter((line) => {
    if (line === "") return false;
    try {
      return (JSON.parse(line) as { step: number }).step <= step;
    } catch {
      return false; // the half line of a killed write
    }
  });
  return kept.map((line) => `${line}\n`).join("");
}
