/**
 * @file One zip for a run's files: stored, not compressed (weights do not compress), read with limits.
 */
import { unzipSync, Zip, ZipPassThrough } from "fflate";
import { messageOf, TabgptError } from "../core/errors.ts";
import type { Files } from "./checkpoint.ts";
import type { Bytes, FileSource } from "./safetensors.ts";

/** Sizes in a zip without its 64-bit extension. */
const MAX_ZIP = 2 ** 32 - 1;
const NOTHING = new Uint8Array();

/** One zip of all files, which the browser keeps where it keeps blobs: only a piece of it is in memory here. */
export async function zipFiles(files: FileSource[]): Promise<Blob> {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_ZIP) {
    throw new TabgptError(`the run holds ${total} bytes; a zip holds at most ${MAX_ZIP}, so train a smaller model to download it`);
  }
  const chunks: Blob[] = [];
  const zip = new Zip((error, chunk) => {
    if (error) throw error;
    chunks.push(new Blob([chunk as Bytes]));
  });
  for (const { name, parts } of files) {
    const entry = new ZipPassThrough(name);
    zip.add(entry);
    for await (const part of parts) entry.push(part);
    entry.push(NOTHING, true);
  }
  zip.end();
  return new Blob(chunks, { type: "application/zip" });
}

const ZIP_MAGIC = [0x50, 0x4b, 0x03, 0x04];

export async function isZip(file: Blob): Promise<boolean> {
  const head = new Uint8Array(await file.slice(0, ZIP_MAGIC.length).arrayBuffer());
  return ZIP_MAGIC.every((byte, i) => head[i] === byte);
}

/** A run's files by name, folders dropped; only the kinds that a checkpoint has. */
export async function unzipFiles(file: Blob): Promise<Files> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    const entries = Object.entries(unzipSync(bytes, { filter: ({ name }) => /\.(safetensors|json|jsonl)$/.test(name) }));
    return new Map(entries.map(([path, data]) => [path.split("/").at(-1)!, new Blob([data as Bytes])]));
  } catch (error) {
    throw new TabgptError(`the zip cannot be read (${messageOf(error)}); it is damaged or incomplete`);
  }
}
