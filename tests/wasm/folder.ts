/**
 * @file A checkpoint's folder on the disk, for the page's code in Node: read where and when it is wanted,
 * written piece by piece.
 */
import { createWriteStream, mkdirSync, openAsBlob, readdirSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import type { Files } from "../../browser/src/checkpoint/checkpoint.ts";
import type { FileSource } from "../../browser/src/checkpoint/safetensors.ts";

export async function filesIn(folder: string): Promise<Files> {
  const files: Files = new Map();
  for (const name of readdirSync(folder)) files.set(name, await openAsBlob(`${folder}/${name}`));
  return files;
}

export async function writeFiles(folder: string, files: FileSource[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const { name, parts } of files) await pipeline(parts, createWriteStream(`${folder}/${name}`));
}
