/**
 * @file The page's safetensors reader for fuzz_checkpoints.py: a u32 length and a file on stdin, a JSON
 * line on stdout, until stdin ends.
 */
import { readSync, writeSync } from "node:fs";
import { readSafetensors, toFloat32 } from "../browser/src/checkpoint/safetensors.ts";
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

/** f(), or what a refusal becomes; any other error is a crash and passes through. */
function orRefusal<T, R>(f: () => T, refusal: (message: string) => R): T | R {
  try {
    return f();
  } catch (error) {
    if (error instanceof TabgptError) return refusal(error.message);
    throw error;
  }
}

function answer(raw: Uint8Array<ArrayBuffer>): unknown {
  const file = orRefusal(() => readSafetensors(raw), (refused) => ({ refused }));
  if ("refused" in file) return file;
  const tensors = [...file.tensors].map(([name, entry]) => {
    const values = orRefusal(() => toFloat32(name, entry), () => null);
    return [name, entry.shape, values && Buffer.from(values.buffer).toString("hex")];
  });
  return { metadata: file.metadata, tensors };
}

for (let head = take(4); head; head = take(4)) {
  const raw = take(new DataView(head.buffer).getUint32(0, true));
  if (!raw) break;
  let reply: unknown;
  try {
    reply = answer(raw);
  } catch (error) {
    reply = { crash: error instanceof Error ? error.stack : String(error) };
  }
  const line = Buffer.from(`${JSON.stringify(reply)}\n`);
  for (let at = 0; at < line.length; ) at += writeSync(1, line, at);
}
