/**
 * @file Where the tab keeps its one run: the origin's private file system where the browser has it, else
 * memory that lasts as long as the tab.
 *
 * Every save has a folder of its own, numbered; its model is written last and makes it whole. The run is
 * the newest whole save. So a tab that is killed, or a disk that is full, at any moment leaves the
 * previous save as it was, all its files of one step and one run.
 */
import type { Corpus } from "../corpus.ts";
import { MODEL_FILE, type Files } from "./checkpoint.ts";
import type { FileSource } from "./safetensors.ts";

/** What is kept in memory. Blobs outlive the worker that made them, so the next one takes them over. */
export interface Kept {
  files: Map<string, Blob>;
  corpus: Corpus | null;
}

export interface RunStore {
  /** False: what is kept ends with the tab. */
  readonly durable: boolean;
  /** What is there, by name. Files that fit into memory are read, so that no later save changes them. */
  read(): Promise<Files>;
  /** The same without reading any. */
  list(): Promise<Files>;
  /** Keeps this run, and its corpus where one is given, in place of the last. */
  write(files: FileSource[], corpus: Corpus | null): Promise<void>;
  /** Removes what killed tabs left, and every corpus but the run's (its hash; null where it has none). */
  tidy(corpus: string | null): Promise<void>;
  clear(): Promise<void>;
  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null>;
  hasCorpus(sha256: string): Promise<boolean>;
}

class MemoryStore implements RunStore {
  readonly durable = false;
  readonly #onChange: (kept: Kept) => void;
  #kept: Kept;

  constructor(kept: Kept | null, onChange: (kept: Kept) => void) {
    this.#kept = kept ?? { files: new Map(), corpus: null };
    this.#onChange = onChange;
  }

  read(): Promise<Files> {
    return readAll(this.#kept.files);
  }

  list(): Promise<Files> {
    return Promise.resolve(this.#kept.files);
  }

  async write(files: FileSource[], corpus: Corpus | null): Promise<void> {
    const blobs: Files = new Map();
    for (const { name, parts } of files) {
      const pieces: Blob[] = [];
      for await (const part of parts) pieces.push(new Blob([part]));
      blobs.set(name, new Blob(pieces));
    }
    return this.#keep({ files: blobs, corpus: corpus ?? this.#kept.corpus });
  }

  tidy(): Promise<void> {
    return Promise.resolve();
  }

  clear(): Promise<void> {
    return this.#keep({ files: new Map(), corpus: null });
  }

  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const { corpus } = this.#kept;
    return Promise.resolve(corpus?.sha256 === sha256 ? corpus.raw : null);
  }

  hasCorpus(sha256: string): Promise<boolean> {
    return Promise.resolve(this.#kept.corpus?.sha256 === sha256);
  }

  #keep(kept: Kept): Promise<void> {
    this.#kept = kept;
    this.#onChange(kept);
    return Promise.resolve();
  }
}

/** Beyond it a file stays on the disk and is read tensor by tensor. */
const HELD_BYTES = 2 ** 28;

async function readAll(blobs: Files): Promise<Files> {
  const files: Files = new Map();
  for (const [name, blob] of blobs) files.set(name, blob.size > HELD_BYTES ? blob : new Blob([await blob.arrayBuffer()]));
  return files;
}

const ROOT = "tabgpt";

class OpfsStore implements RunStore {
  readonly durable = true;

  /** Asked for each time: what a person clears in the browser's settings is made anew. */
  async #folder(name: "saves" | "corpus"): Promise<FileSystemDirectoryHandle> {
    const origin = await navigator.storage.getDirectory();
    const root = await origin.getDirectoryHandle(ROOT, { create: true });
    return root.getDirectoryHandle(name, { create: true });
  }

  async read(): Promise<Files> {
    return readAll(await this.list());
  }

  async list(): Promise<Files> {
    const saves = await this.#folder("saves");
    const number = await newestWhole(saves);
    return number === null ? new Map() : filesIn(await saves.getDirectoryHandle(String(number)));
  }

  async write(files: FileSource[], corpus: Corpus | null): Promise<void> {
    const corpora = await this.#folder("corpus");
    const text = corpus ? corpusFile(corpus.sha256) : "";
    if (corpus && (await sizeOf(corpora, text)) === 0) await writeFile(corpora, text, [corpus.raw]);
    const saves = await this.#folder("saves");
    const number = String(Math.max(0, ...(await numbersIn(saves))) + 1);
    const folder = await saves.getDirectoryHandle(number, { create: true });
    try {
      for (const { name, parts } of inOrder(files)) await writeFile(folder, name, parts);
    } catch (error) {
      // The previous save stands; what this one wrote would only fill the disk further.
      await saves.removeEntry(number, { recursive: true }).catch(ignoreMissing);
      throw error;
    }
    await this.#removeOtherSaves();
    if (corpus) await prune(corpora, (name) => name !== text);
  }

  async tidy(corpus: string | null): Promise<void> {
    await this.#removeOtherSaves();
    await prune(await this.#folder("corpus"), (name) => corpus === null || name !== corpusFile(corpus));
  }

  async #removeOtherSaves(): Promise<void> {
    const saves = await this.#folder("saves");
    const newest = await newestWhole(saves);
    for (const number of await numbersIn(saves)) if (number !== newest) await removeSave(saves, number);
  }

  async clear(): Promise<void> {
    const saves = await this.#folder("saves");
    for (const number of await numbersIn(saves)) await removeSave(saves, number);
    await prune(await this.#folder("corpus"), () => true);
  }

  async readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const folder = await this.#folder("corpus");
    const name = corpusFile(sha256);
    if ((await sizeOf(folder, name)) === 0) return null;
    const file = await (await folder.getFileHandle(name)).getFile();
    return new Uint8Array(await file.arrayBuffer());
  }

  async hasCorpus(sha256: string): Promise<boolean> {
    return (await sizeOf(await this.#folder("corpus"), corpusFile(sha256))) > 0;
  }
}

/** The model last: with it a save is whole. */
function inOrder(files: FileSource[]): FileSource[] {
  return [...files].sort((a, b) => Number(a.name === MODEL_FILE) - Number(b.name === MODEL_FILE));
}

/** Numbers of the saves that were begun, oldest first. */
async function numbersIn(saves: FileSystemDirectoryHandle): Promise<number[]> {
  const numbers: number[] = [];
  for await (const name of saves.keys()) if (/^\d+$/.test(name)) numbers.push(Number(name));
  return numbers.sort((a, b) => a - b);
}

async function newestWhole(saves: FileSystemDirectoryHandle): Promise<number | null> {
  for (const number of (await numbersIn(saves)).reverse()) {
    if ((await sizeOf(await saves.getDirectoryHandle(String(number)), MODEL_FILE)) > 0) return number;
  }
  return null;
}

/** Its model first, so that no half of it is ever taken for a whole. */
async function removeSave(saves: FileSystemDirectoryHandle, number: number): Promise<void> {
  const name = String(number);
  const folder = await saves.getDirectoryHandle(name);
  await folder.removeEntry(MODEL_FILE).catch(ignoreMissing);
  await saves.removeEntry(name, { recursive: true }).catch(ignoreMissing);
}

async function filesIn(folder: FileSystemDirectoryHandle): Promise<Files> {
  const files = new Map<string, Blob>();
  for await (const [name, handle] of folder.entries()) {
    if (handle.kind === "file") files.set(name, await (handle as FileSystemFileHandle).getFile());
  }
  return files;
}

function corpusFile(sha256: string): string {
  return `${sha256}.txt`;
}

/** Bytes of a file; 0 where there is none, or where a killed tab left it empty. */
async function sizeOf(folder: FileSystemDirectoryHandle, name: string): Promise<number> {
  for await (const [found, handle] of folder.entries()) {
    if (found === name && handle.kind === "file") return (await (handle as FileSystemFileHandle).getFile()).size;
  }
  return 0;
}

async function prune(folder: FileSystemDirectoryHandle, unwanted: (name: string) => boolean): Promise<void> {
  const names: string[] = [];
  for await (const name of folder.keys()) if (unwanted(name)) names.push(name);
  for (const name of names) await folder.removeEntry(name).catch(ignoreMissing);
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof DOMException && error.name === "NotFoundError")) throw error;
}

/**
 * Writes a file in one step: it is empty until all of it is there. A writable's bytes land beside the
 * file and take its place on close. Where a worker has only synchronous handles (Safari before 26), a
 * new file is moved over the old.
 */
async function writeFile(
  folder: FileSystemDirectoryHandle,
  name: string,
  parts: FileSource["parts"],
): Promise<void> {
  const handle = await folder.getFileHandle(name, { create: true });
  if ("createWritable" in handle) {
    const writable = await handle.createWritable();
    try {
      for await (const part of parts) await writable.write(part);
      await writable.close();
    } catch (error) {
      await writable.abort().catch(() => undefined);
      throw error;
    }
    return;
  }
  const fresh = (await folder.getFileHandle(`${name}.new`, { create: true })) as FileSystemFileHandle & {
    move(name: string): Promise<void>;
  };
  const access = await fresh.createSyncAccessHandle();
  try {
    access.truncate(0);
    let at = 0;
    for await (const part of parts) at += access.write(part, { at });
    access.flush();
  } finally {
    access.close();
  }
  await fresh.move(name);
}

/**
 * The private file system where it is there and allowed (private windows may refuse it), else memory,
 * which begins with what an earlier worker kept there and tells of each change.
 */
export async function openStore(kept: Kept | null, onChange: (kept: Kept) => void): Promise<RunStore> {
  try {
    const origin = await navigator.storage.getDirectory();
    await origin.getDirectoryHandle(ROOT, { create: true });
    return new OpfsStore();
  } catch {
    return new MemoryStore(kept, onChange);
  }
}
