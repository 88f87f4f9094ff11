/**
 * @file One zip for a run's files: stored, not compressed (weights do not compress), read with limits.
 */
import { unzipSync, Zip, ZipPassThrough } from "fflate";
import { messageOf, TabgptError } from "../core/errors.ts";
import type { FileParts, Files } from "./checkpoint.ts";

/** Sizes in a zip without its 64-bit extension. */
const MAX_ZIP = 2 ** 32 - 1;

function lengthOf(parts: Uint8Array[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

export function zipFiles(files: FileParts): Uint8Array<ArrayBuffer>[] {
  const total = files.reduce((sum, file) => sum + lengthOf(file.parts), 0);
  if (total > MAX_ZIP) throw new TabgptError(`the run holds ${total} bytes; a zip holds at most ${MAX_ZIP}`);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const zip = new Zip((error, chunk) => {
    if (error) throw error;
    chunks.push(chunk as Uint8Array<ArrayBuffer>);
  });
  for (const { name, parts } of files) {
    const entry = new ZipPassThrough(name);
    zip.add(entry);
    parts.forEach((part, i) => entry.push(part, i === parts.length - 1));
  }
  zip.end();
  return chunks;
}

const ZIP_MAGIC = [0x50, 0x4b, 0x03, 0x04];

export function isZip(bytes: Uint8Array): boolean {
  return ZIP_MAGIC.every((byte, i) => bytes[i] === byte);
}

/** A run's files by name, folders dropped; only the kinds that a checkpoint has. */
export function unzipFiles(bytes: Uint8Array<ArrayBuffer>): Files {
  try {
    const entries = Object.entries(unzipSync(bytes, { filter: (file) => /\.(safetensors|json|jsonl)$/.test(file.name) }));
    return new Map(entries.map(([path, data]) => [path.split("/").at(-1)!, data as Uint8Array<ArrayBuffer>]));
  } catch (error) {
    throw new TabgptError(`the zip cannot be read (${messageOf(error)}); it is damaged or incomplete`);
  }
}
