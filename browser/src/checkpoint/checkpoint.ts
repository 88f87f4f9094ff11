/**
 * @file A run as files: the folder that `tabgpt train` writes, here as names and bytes. The format is
 * reference/tabgpt/checkpoint.py's; either side resumes the other's runs.
 */
import { TabgptError } from "../core/errors.ts";
import { toGpt2Config } from "./huggingface.ts";
import { foreignInfo, infoOf, optimizerOf, type RunInfo, SCHEMA } from "./info.ts";
import {
  readMetadata,
  readSafetensors,
  tensorsOf,
  toFloat32,
  writeSafetensors,
  type FileSource,
  type NamedTensor,
  type TensorFile,
} from "./safetensors.ts";

export const MODEL_FILE = "model.safetensors";
export const CONFIG_FILE = "config.json";
export const METRICS_FILE = "metrics.jsonl";

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

/** A folder's files, to be read. */
export type Files = Map<string, Blob>;

export function optimizerFile(step: number): string {
  return `optimizer-${String(step).padStart(6, "0")}.safetensors`;
}

/** A folder's files in the order in which they must be written: the model commits the checkpoint. */
export function writeCheckpoint({ info, weights, moments, metrics }: Checkpoint, producer: string): FileSource[] {
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
  const files: FileSource[] = [];
  if (moments) {
    metadata.optimizer = optimizer;
    const optimizerMetadata = {
      format: "pt",
      tabgpt_schema: SCHEMA,
      step: String(info.step),
    };
    files.push(writeSafetensors(optimizer, moments, optimizerMetadata));
  }
  files.push(textFile(CONFIG_FILE, `${JSON.stringify(toGpt2Config(info.model), null, 2)}\n`));
  if (metrics) files.push(textFile(METRICS_FILE, metrics));
  files.push(writeSafetensors(MODEL_FILE, weights, metadata));
  return files;
}

function textFile(name: string, text: string): FileSource {
  const bytes = new TextEncoder().encode(text);
  return { name, size: bytes.length, parts: [bytes] };
}

/**
 * Parses a folder's files; the tensors read when they are asked. Throws TabgptError that names the file or
 * tensor and what is wrong, as their reading does.
 */
export async function readCheckpoint(files: Files): Promise<Checkpoint> {
  const model = files.get(MODEL_FILE);
  if (!model) {
    throw new TabgptError(`there is no ${MODEL_FILE} among ${[...files.keys()].join(", ") || "the files"}`);
  }
  const file = await readSafetensors(model);
  const info = file.metadata.tabgpt_schema === undefined ? await foreign(files) : infoOf(file.metadata);
  return {
    info,
    weights: await weightsOf(file),
    moments: await momentsOf(files, file.metadata, info.step),
    metrics: cutMetrics((await files.get(METRICS_FILE)?.text()) ?? "", info.step),
  };
}

/** The same with all tensors read: what is wrong with one is thrown now, and no file is read later. */
export async function inMemory({ weights, moments, ...rest }: Checkpoint): Promise<Checkpoint> {
  return { ...rest, weights: await allRead(weights), moments: moments && (await allRead(moments)) };
}

async function allRead(tensors: NamedTensor[]): Promise<NamedTensor[]> {
  const held: NamedTensor[] = [];
  for (const { name, shape, read } of tensors) {
    const values = await read();
    held.push({ name, shape, read: () => Promise.resolve(values) });
  }
  return held;
}

/** Reads every tensor once and keeps none: throws TabgptError where one is unusable. */
export async function verify({ weights, moments }: Checkpoint): Promise<void> {
  for (const { read } of [...weights, ...(moments ?? [])]) await read();
}

/** Only what a saved run says of itself; reads the file's header, not its tensors. */
export async function readInfo(model: Blob): Promise<{ info: RunInfo; optimizer: string | null }> {
  const metadata = await readMetadata(model, MODEL_FILE);
  return { info: infoOf(metadata), optimizer: optimizerOf(metadata) };
}

/** Of a file that transformers saved: config.json beside it says what it is. */
async function foreign(files: Files): Promise<RunInfo> {
  const config = files.get(CONFIG_FILE);
  if (!config) {
    throw new TabgptError(
      `${MODEL_FILE} carries no tabgpt metadata and no ${CONFIG_FILE} lies beside it; upload both in one zip`,
    );
  }
  return foreignInfo(await config.text());
}

/** transformers' causal-mask buffers, which old versions saved. */
const MASK_BUFFER = /\.attn\.(bias|masked_bias)$/;
const HEAD = "lm_head.weight";
const EMBEDDING = "transformer.wte.weight";

/** Weights by full name; masks dropped, a tied head dropped, an untied one refused. */
async function weightsOf(file: TensorFile): Promise<NamedTensor[]> {
  const weights: NamedTensor[] = [];
  for (const [stored, entry] of file.tensors) {
    if (MASK_BUFFER.test(stored) || stored === HEAD) continue;
    const name = stored.startsWith("transformer.") ? stored : `transformer.${stored}`;
    weights.push({ name, shape: entry.shape, read: () => toFloat32(name, entry) });
  }
  const head = file.tensors.get(HEAD);
  const embedding = weights.find(({ name }) => name === EMBEDDING);
  if (head && embedding) {
    const [values, tied] = [await toFloat32(HEAD, head), await embedding.read()];
    if (values.length !== tied.length || values.some((value, i) => value !== tied[i])) {
      throw new TabgptError(`"${HEAD}" differs from "${EMBEDDING}"; tabgpt's model ties them`);
    }
  }
  return weights;
}

async function momentsOf(files: Files, metadata: Record<string, string>, step: number): Promise<NamedTensor[] | null> {
  const name = optimizerOf(metadata);
  const blob = name === null ? undefined : files.get(name);
  if (name === null || !blob) return null;
  const file = await readSafetensors(blob, name);
  if (Number(file.metadata.step) !== step) {
    throw new TabgptError(`${name} is of step ${file.metadata.step}, the model of step ${step}; the run is damaged`);
  }
  return tensorsOf(file);
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
