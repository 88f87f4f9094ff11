/**
 * @file The page's readers for the fuzzers: a u32 length and as many bytes on stdin, a JSON line on stdout,
 * until stdin ends. `tensors` (fuzz_checkpoints.py) reads a safetensors file; `describe` (fuzz_metadata.py)
 * reads {metadata, config}, config.json's text or null, as a run without tensors.
 */
import { readSync, writeSync } from "node:fs";
import { CONFIG_FILE, MODEL_FILE, readCheckpoint, readInfo, type Files } from "../browser/src/checkpoint/checkpoint.ts";
import { readSafetensors, toFloat32, writeSafetensors } from "../browser/src/checkpoint/safetensors.ts";
import { TabgptError } from "../browser/src/core/errors.ts";

/** Exactly n bytes; null at the end. */
function take(n: number): Uint8Array<ArrayBuffer> | null {
  const bytes = new Uint8Array(n);
  for (let at = 0; at < n; ) {
    const got = readSync(0, bytes, at, n - at, null);
    if (got === 0) return null;
    at += got;
  }
  return bytes;
}

/** What is promised, or what a refusal becomes; any other error is a crash and passes through. */
async function orRefusal<T, R>(promise: Promise<T>, refusal: (message: string) => R): Promise<T | R> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof TabgptError) return refusal(error.message);
    throw error;
  }
}

async function tensors(raw: Uint8Array<ArrayBuffer>): Promise<unknown> {
  const file = await orRefusal(readSafetensors(new Blob([raw])), (refused) => ({ refused }));
  if ("refused" in file) return file;
  const tensors: unknown[] = [];
  for (const [name, entry] of file.tensors) {
    const values = await orRefusal(toFloat32(name, entry), () => null);
    tensors.push([name, entry.shape, values && Buffer.from(values.buffer).toString("hex")]);
  }
  return { metadata: file.metadata, tensors };
}

/** What readCheckpoint finds; readInfo, which reads the header alone, must find the same. */
async function describe(raw: Uint8Array<ArrayBuffer>): Promise<unknown> {
  const { metadata, config } = JSON.parse(new TextDecoder().decode(raw)) as {
    metadata: Record<string, string>;
    config: string | null;
  };
  const written: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of writeSafetensors(MODEL_FILE, [], metadata).parts) written.push(part);
  const model = new Blob(written);
  const files: Files = new Map([[MODEL_FILE, model]]);
  if (config !== null) files.set(CONFIG_FILE, new Blob([config]));
  const refusal = (refused: string): { refused: string } => ({ refused });
  const read = await orRefusal(readCheckpoint(files).then(({ info }) => info), refusal);
  if (config !== null) return "refused" in read ? read : { ...read, optimizer: null };
  const alone = await orRefusal(readInfo(model).then(({ info, optimizer }) => ({ ...info, optimizer })), refusal);
  const same = "refused" in read ? "refused" in alone : JSON.stringify({ ...read, optimizer: null }) ===
    JSON.stringify({ ...alone, optimizer: null });
  if (!same) throw new Error(`readCheckpoint: ${JSON.stringify(read)}, readInfo: ${JSON.stringify(alone)}`);
  return alone;
}

const answer = process.argv[2] === "describe" ? describe : tensors;
for (let head = take(4); head; head = take(4)) {
  const raw = take(new DataView(head.buffer).getUint32(0, true));
  if (!raw) break;
  let reply: unknown;
  try {
    reply = await answer(raw);
  } catch (error) {
    reply = { crash: error instanceof Error ? error.stack : String(error) };
  }
  const line = Buffer.from(`${JSON.stringify(reply)}\n`);
  for (let at = 0; at < line.length; ) at += writeSync(1, line, at);
}
