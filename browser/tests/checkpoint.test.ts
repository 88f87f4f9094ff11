import { expect, test } from "vitest";
import {
  cutMetrics,
  readCheckpoint,
  readInfo,
  writeCheckpoint,
  type Checkpoint,
  type FileParts,
  type Files,
} from "../src/checkpoint/checkpoint.ts";
import { fromGpt2Config, toGpt2Config } from "../src/checkpoint/huggingface.ts";
import { writeSafetensors } from "../src/checkpoint/safetensors.ts";
import { isZip, unzipFiles, zipFiles } from "../src/checkpoint/zip.ts";
import { modelConfig, presetValues, runConfig, trainConfig } from "../src/presets.ts";

const values = presetValues("tiny");
const WTE = { name: "transformer.wte.weight", shape: [3, 2], values: Float32Array.of(1, 2, 3, 4, 5, 6) };

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
    { ...WTE, name: "m:transformer.wte.weight" },
    { ...WTE, name: "v:transformer.wte.weight" },
  ],
  metrics: `{"step":12}\n`,
};

function filesOf(parts: FileParts): Files {
  return new Map(parts.map((file) => [file.name, new Uint8Array(file.parts.flatMap((part) => [...part]))]));
}

function foreign(tensors: Checkpoint["weights"], config: object | null): Files {
  const parts: FileParts = [{ name: "model.safetensors", parts: writeSafetensors(tensors, { format: "pt" }) }];
  if (config) parts.push({ name: "config.json", parts: [new TextEncoder().encode(JSON.stringify(config))] });
  return filesOf(parts);
}

const GPT2 = toGpt2Config(checkpoint.info.model);

test("a run survives the way through its files", () => {
  expect(readCheckpoint(filesOf(writeCheckpoint(checkpoint, "test")))).toEqual(checkpoint);
});

test("the model is written last: its replacement commits the save", () => {
  const names = writeCheckpoint(checkpoint, "test").map(({ name }) => name);
  expect(names).toEqual(["optimizer-000012.safetensors", "config.json", "metrics.jsonl", "model.safetensors"]);
});

test("a saved run describes itself from its header alone", async () => {
  const model = filesOf(writeCheckpoint(checkpoint, "test")).get("model.safetensors")!;
  const { info, optimizer } = await readInfo(new Blob([model.slice(0, -8)]));
  expect(info).toEqual(checkpoint.info);
  expect(optimizer).toBe("optimizer-000012.safetensors");
});

test("a zip holds the same files", () => {
  const parts = writeCheckpoint(checkpoint, "test");
  const zipped = new Uint8Array(zipFiles(parts).flatMap((part) => [...part]));
  expect(isZip(zipped)).toBe(true);
  expect(unzipFiles(zipped)).toEqual(filesOf(parts));
  expect(() => unzipFiles(zipped.slice(0, 200))).toThrow(/damaged/);
});

test("transformers' own file is read, with or without its prefix, masks ignored", () => {
  const mask = { name: "h.0.attn.bias", shape: [1], values: Float32Array.of(1) };
  const head = { ...WTE, name: "lm_head.weight" };
  for (const name of [WTE.name, "wte.weight"]) {
    const { info, weights, moments } = readCheckpoint(foreign([{ ...WTE, name }, mask, head], GPT2));
    expect(weights).toEqual([WTE]);
    expect(moments).toBeNull();
    expect(info).toMatchObject({ model: checkpoint.info.model, train: null, tokenizer: { kind: "none" } });
  }
});

test("an untied head is refused", () => {
  const head = { name: "lm_head.weight", shape: [3, 2], values: new Float32Array(6) };
  expect(() => readCheckpoint(foreign([WTE, head], GPT2))).toThrow(/lm_head.weight/);
});

test("a file without metadata needs its config.json", () => {
  expect(() => readCheckpoint(foreign([WTE], null))).toThrow(/no config.json/);
  expect(() => readCheckpoint(new Map())).toThrow(/no model.safetensors/);
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
])("a checkpoint with %s is refused", (_name, change: Record<string, string | undefined>, message) => {
  const files = filesOf(writeCheckpoint(checkpoint, "test"));
  const metadata: Record<string, string | undefined> = {
    tabgpt_schema: "1",
    config: JSON.stringify(checkpoint.info.model),
    tokenizer: JSON.stringify(checkpoint.info.tokenizer),
    step: "12",
    ...change,
  };
  const kept = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined)) as Record<string, string>;
  const model = filesOf([{ name: "model.safetensors", parts: writeSafetensors([WTE], kept) }]);
  expect(() => readCheckpoint(new Map([...files, ...model]))).toThrow(message);
});

test("moments of another step are refused", () => {
  const files = filesOf(writeCheckpoint(checkpoint, "test"));
  const other = writeCheckpoint({ ...checkpoint, info: { ...checkpoint.info, step: 13 } }, "test");
  files.set("optimizer-000012.safetensors", filesOf(other).get("optimizer-000013.safetensors")!);
  expect(() => readCheckpoint(files)).toThrow(/step 13, the model of step 12/);
});

test("metrics past the checkpoint are cut, a half line too", () => {
  expect(cutMetrics(`{"step":1}\n{"step":2}\n{"step":3}\n{"st`, 2)).toBe(`{"step":1}\n{"step":2}\n`);
});
