import { expect, test } from "vitest";
import {
  cutMetrics,
  inMemory,
  readCheckpoint,
  readInfo,
  verify,
  writeCheckpoint,
  type Checkpoint,
  type Files,
} from "../src/checkpoint/checkpoint.ts";
import { fromGpt2Config, toGpt2Config } from "../src/checkpoint/huggingface.ts";
import { writeSafetensors, type FileSource, type NamedTensor } from "../src/checkpoint/safetensors.ts";
import { isZip, unzipFiles, zipFiles } from "../src/checkpoint/zip.ts";
import { modelConfig, presetValues, runConfig, trainConfig } from "../src/presets.ts";

const values = presetValues("tiny");
const tensor = (name: string, shape: number[], values: number[]): NamedTensor => ({
  name,
  shape,
  read: () => Promise.resolve(Float32Array.from(values)),
});
const wte = (name: string): NamedTensor => tensor(name, [3, 2], [1, 2, 3, 4, 5, 6]);
const NAME = "transformer.wte.weight";
const WTE = wte(NAME);

const checkpoint: Checkpoint = {
  info: {
    model: modelConfig(values, 3),
    tokenizer: { kind: "char", vocab: "ab\u{1F98A}" },
    train: trainConfig(values),
    run: runConfig(values),
    corpus: { path: "", sha256: "00", name: "x.txt" },
    step: 12,
  },
  weights: [WTE],
  moments: [
    wte(`m:${NAME}`),
    wte(`v:${NAME}`),
  ],
  metrics: `{"step":12}\n`,
};

async function filesOf(sources: FileSource[]): Promise<Files> {
  const files: Files = new Map();
  for (const { name, size, parts } of sources) {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    for await (const part of parts) pieces.push(part);
    files.set(name, new Blob(pieces));
    expect(files.get(name)!.size).toBe(size);
  }
  return files;
}

function foreign(tensors: NamedTensor[], config: object | null): Promise<Files> {
  const sources = [writeSafetensors("model.safetensors", tensors, { format: "pt" })];
  const text = new TextEncoder().encode(JSON.stringify(config));
  if (config) sources.push({ name: "config.json", size: text.length, parts: [text] });
  return filesOf(sources);
}

/** With the tensors' values in place of their reading. */
async function told({ weights, moments, ...rest }: Checkpoint): Promise<unknown> {
  const read = (tensors: NamedTensor[]): Promise<unknown> =>
    Promise.all(tensors.map(async ({ name, shape, read }) => ({ name, shape, values: await read() })));
  return { ...rest, weights: await read(weights), moments: moments && (await read(moments)) };
}

const GPT2 = toGpt2Config(checkpoint.info.model);

test("a run survives the way through its files", async () => {
  const read = await readCheckpoint(await filesOf(writeCheckpoint(checkpoint, "test")));
  expect(await told(read)).toEqual(await told(checkpoint));
});

test("a file is read and written tensor by tensor", async () => {
  const events: string[] = [];
  const watched = (name: string): NamedTensor => ({ ...wte(name), read: () => (events.push(`read ${name}`), wte(name).read()) });
  for await (const part of writeSafetensors("x", [watched("a"), watched("b")], {}).parts) events.push(`${part.length} bytes`);
  expect(events.slice(1)).toEqual(["read a", "24 bytes", "read b", "24 bytes"]);
  const read = await readCheckpoint(await filesOf(writeCheckpoint(checkpoint, "test")));
  const held = await inMemory(read);
  expect(await held.weights[0]!.read()).toBe(await held.weights[0]!.read());
  expect(await read.weights[0]!.read()).not.toBe(await read.weights[0]!.read());
});

test("a tensor that is not finite is refused by whoever reads it", async () => {
  const bad = { ...checkpoint, moments: [tensor(`m:${NAME}`, [1], [NaN])] };
  const read = await readCheckpoint(await filesOf(writeCheckpoint(bad, "test")));
  for (const reading of [verify(read), inMemory(read)]) await expect(reading).rejects.toThrow(/"m:.*holds NaN at element 0/);
});

test("the model is written last: its replacement commits the save", () => {
  const names = writeCheckpoint(checkpoint, "test").map(({ name }) => name);
  expect(names).toEqual(["optimizer-000012.safetensors", "config.json", "metrics.jsonl", "model.safetensors"]);
});

test("a saved run describes itself from its header alone", async () => {
  const model = (await filesOf(writeCheckpoint(checkpoint, "test"))).get("model.safetensors")!;
  const { info, optimizer } = await readInfo(model.slice(0, -8));
  expect(info).toEqual(checkpoint.info);
  expect(optimizer).toBe("optimizer-000012.safetensors");
});

test("a zip holds the same files", async () => {
  const zipped = await zipFiles(writeCheckpoint(checkpoint, "test"));
  expect(await isZip(zipped)).toBe(true);
  const bytes = async (files: Files): Promise<unknown> =>
    Promise.all([...files].map(async ([name, file]) => [name, new Uint8Array(await file.arrayBuffer())]));
  expect(await bytes(await unzipFiles(zipped))).toEqual(await bytes(await filesOf(writeCheckpoint(checkpoint, "test"))));
  await expect(unzipFiles(zipped.slice(0, 200))).rejects.toThrow(/damaged/);
  expect(await isZip(new Blob(["PK"]))).toBe(false);
});

test("a run that no zip holds is refused before it is packed", async () => {
  const parts = (function* () { throw new Error("read"); })() as Iterable<Uint8Array<ArrayBuffer>>;
  await expect(zipFiles([{ name: "x", size: 5e9, parts }])).rejects.toThrow(/5000000000 bytes; a zip holds at most 4294967295/);
});

test("transformers' own file is read, with or without its prefix, masks ignored", async () => {
  const mask = tensor("h.0.attn.bias", [1], [1]);
  for (const name of [NAME, "wte.weight"]) {
    const { info, weights, moments } = await readCheckpoint(await foreign([wte(name), mask, wte("lm_head.weight")], GPT2));
    expect(weights.map((each) => each.name)).toEqual([NAME]);
    expect(await weights[0]!.read()).toEqual(await WTE.read());
    expect(moments).toBeNull();
    expect(info).toMatchObject({ model: checkpoint.info.model, train: null, tokenizer: { kind: "none" } });
  }
});

test("an untied head is refused", async () => {
  const head = tensor("lm_head.weight", [3, 2], [0, 0, 0, 0, 0, 0]);
  await expect(readCheckpoint(await foreign([WTE, head], GPT2))).rejects.toThrow(/lm_head.weight/);
});

test("a file without metadata needs its config.json", async () => {
  await expect(readCheckpoint(await foreign([WTE], null))).rejects.toThrow(/no config.json/);
  await expect(readCheckpoint(new Map())).rejects.toThrow(/no model.safetensors/);
});

test.each([
  ["another architecture", { model_type: "llama" }, /model_type/],
  ["unequal dropouts", { attn_pdrop: 0.3 }, /attn_pdrop/],
  ["another epsilon", { layer_norm_epsilon: 1e-6 }, /layer_norm_epsilon/],
  ["another activation", { activation_function: "relu" }, /"relu"/],
  ["an activation of JavaScript's own", { activation_function: "constructor" }, /"constructor"/],
  ["a list of activations", { activation_function: ["gelu"] }, /\["gelu"\]/],
  ["inverse layer scaling", { scale_attn_by_inverse_layer_idx: true }, /scale_attn_by_inverse_layer_idx/],
  ["no size", { n_embd: 0 }, /n_embd/],
])("config.json with %s is refused by name", (_name, change, message) => {
  expect(() => fromGpt2Config({ ...GPT2, ...change })).toThrow(message);
});

test("config.json's defaults are GPT-2's", () => {
  expect(fromGpt2Config({ model_type: "gpt2" })).toMatchObject({ vocab_size: 50257, n_layer: 12, d_mlp: 3072, dropout: 0.1 });
});

test.each([
  ["a newer schema", { tabgpt_schema: "2" }, /tabgpt_schema "2"/],
  ["no config", { config: undefined }, /no "config"/],
  ["a config that is no JSON", { config: "{" }, /"config" is no JSON/],
  ["a bad field", { train: JSON.stringify({ ...checkpoint.info.train, lr: -1 }) }, /lr/],
  ["a bad step", { step: "-3" }, /"step" is "-3"/],
  ["a step in another notation", { step: "0x10" }, /"step" is "0x10"/],
  ["a step past the last", { step: "4294967296" }, /past its last step 4294967295/],
  ["an unknown key", { config: JSON.stringify({ ...checkpoint.info.model, colour: 1 }) }, /"colour"/],
  ["heads that do not divide", { config: JSON.stringify({ ...checkpoint.info.model, n_head: 3, d_model: 4 }) }, /n_head/],
  ["no vocabulary size", { config: JSON.stringify({ ...checkpoint.info.model, vocab_size: undefined }) }, /vocab_size/],
  ["no tokenizer", { tokenizer: undefined }, /no "tokenizer"/],
  ["a tokenizer of nothing", { tokenizer: "null" }, /no JSON object/],
  ["a vocabulary that is no text", { tokenizer: `{"kind":"char","vocab":5}` }, /"kind" char/],
  ["half a character", { tokenizer: `{"kind":"char","vocab":"\\ud800"}` }, /surrogate/],
  ["a corpus that is none", { corpus: "5" }, /no JSON object/],
  ["a corpus path that is none", { corpus: `{"path":5}` }, /path 5/],
  ["an odd optimizer", { optimizer: "../optimizer-1.safetensors" }, /odd name/],
  ["another vocabulary", { tokenizer: `{"kind":"char","vocab":"ab"}` }, /vocabulary mismatch/],
])("a checkpoint with %s is refused", async (_name, change: Record<string, string | undefined>, message) => {
  const files = await filesOf(writeCheckpoint(checkpoint, "test"));
  const metadata: Record<string, string | undefined> = {
    tabgpt_schema: "1",
    config: JSON.stringify(checkpoint.info.model),
    tokenizer: JSON.stringify(checkpoint.info.tokenizer),
    step: "12",
    ...change,
  };
  const kept = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined)) as Record<string, string>;
  const model = await filesOf([writeSafetensors("model.safetensors", [WTE], kept)]);
  await expect(readCheckpoint(new Map([...files, ...model]))).rejects.toThrow(message);
});

test("moments of another step are refused", async () => {
  const files = await filesOf(writeCheckpoint(checkpoint, "test"));
  const other = writeCheckpoint({ ...checkpoint, info: { ...checkpoint.info, step: 13 } }, "test");
  files.set("optimizer-000012.safetensors", (await filesOf(other)).get("optimizer-000013.safetensors")!);
  await expect(readCheckpoint(files)).rejects.toThrow(/step 13, the model of step 12/);
});

test("metrics past the checkpoint are cut, a half line too", () => {
  expect(cutMetrics(`{"step":1}\n{"step":2}\n{"step":3}\n{"st`, 2)).toBe(`{"step":1}\n{"step":2}\n`);
});
