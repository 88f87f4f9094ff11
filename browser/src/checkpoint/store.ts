/**
 * @file Where the tab keeps its one run: the origin's private file system where the browser has it, else
 * memory that lasts as long as the tab. Written in the order of the checkpoint's files, so that the
 * model's replacement commits it; a crash before that leaves the previous run whole.
 */
import type { Corpus } from "../corpus.ts";
import { isOptimizerFile, type FileParts, type Files } from "./checkpoint.ts";

export interface RunStore {
  /** False: what is kept ends with the tab. */
  readonly durable: boolean;
  read(): Promise<Files>;
  /** What is there, by name, without reading it. */
  list(): Promise<Map<string, Blob>>;
  /** Keeps this run, and its corpus where one is given, in place of the last. */
  write(files: FileParts, corpus: Corpus | null): Promise<void>;
  clear(): Promise<void>;
  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null>;
}

class MemoryStore implements RunStore {
  readonly durable = false;
  #files = new Map<string, Blob>();
  #corpus: Corpus | null = null;

  read(): Promise<Files> {
    return readAll(this.#files);
  }

  list(): Promise<Map<string, Blob>> {
    return Promise.resolve(this.#files);
  }

  write(files: FileParts, corpus: Corpus | null): Promise<void> {
    this.#files = new Map(files.map(({ name, parts }) => [name, new Blob(parts)]));
    if (corpus) this.#corpus = corpus;
    return Promise.resolve();
  }

  clear(): Promise<void> {
    this.#files = new Map();
    return Promise.resolve();
  }

  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return Promise.resolve(this.#corpus?.sha256 === sha256 ? this.#corpus.raw : null);
  }
}

async function readAll(blobs: Map<string, Blob>): Promise<Files> {
  const files: Files = new Map();
  for (const [name, blob] of blobs) files.set(name, new Uint8Array(await blob.arrayBuffer()));
  return files;
}

class OpfsStore implements RunStore {
  readonly durable = true;
  readonly #root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle) {
    this.#root = root;
  }

  #folder(name: "run" | "corpus"): Promise<FileSystemDirectoryHandle> {
    return this.#root.getDirectoryHandle(name, { create: true });
  }

  async read(): Promise<Files> {
    return readAll(await this.list());
  }

  async list(): Promise<Map<string, Blob>> {
    const files = new Map<string, Blob>();
    for await (const [name, handle] of (await this.#folder("run")).entries()) {
      if (handle.kind === "file") files.set(name, await (handle as FileSystemFileHandle).getFile());
    }
    return files;
  }

  async write(files: FileParts, corpus: Corpus | null): Promise<void> {
    const corpora = await this.#folder("corpus");
    const kept = corpus ? `${corpus.sha256}.txt` : "";
    if (corpus && !(await has(corpora, kept))) await replaceFile(corpora, kept, [corpus.raw]);
    const folder = await this.#folder("run");
    for (const { name, parts } of files) await replaceFile(folder, name, parts);
    const current = new Set(files.map(({ name }) => name));
    await prune(folder, (name) => isOptimizerFile(name) && !current.has(name));
    if (corpus) await prune(corpora, (name) => name !== kept);
  }

  async clear(): Promise<void> {
    for (const name of ["run", "corpus"]) await this.#root.removeEntry(name, { recursive: true }).catch(ignoreMissing);
  }

  async readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const folder = await this.#folder("corpus");
    const name = `${sha256}.txt`;
    if (!(await has(folder, name))) return null;
    const file = await (await folder.getFileHandle(name)).getFile();
    return new Uint8Array(await file.arrayBuffer());
  }
}

async function has(folder: FileSystemDirectoryHandle, wanted: string): Promise<boolean> {
  for await (const name of folder.keys()) if (name === wanted) return true;
  return false;
}

async function prune(folder: FileSystemDirectoryHandle, unwanted: (name: string) => boolean): Promise<void> {
  const names: string[] = [];
  for await (const name of folder.keys()) if (unwanted(name)) names.push(name);
  for (const name of names) await folder.removeEntry(name);
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof DOMException && error.name === "NotFoundError")) throw error;
}

/**
 * Replaces a file in one step: a writable's bytes land beside the file and take its place on close.
 * Where a worker has only synchronous handles (Safari before 26), a new file is moved over the old.
 */
async function replaceFile(
  folder: FileSystemDirectoryHandle,
  name: string,
  parts: Uint8Array<ArrayBuffer>[],
): Promise<void> {
  const handle = await folder.getFileHandle(name, { create: true });
  if ("createWritable" in handle) {
    const writable = await handle.createWritable();
    for (const part of parts) await writable.write(part);
    await writable.close();
    return;
  }
  const fresh = (await folder.getFileHandle(`${name}.new`, { create: true })) as FileSystemFileHandle & {
    move(name: string): Promise<void>;
  };
  const access = await fresh.createSyncAccessHandle();
  try {
    access.truncate(0);
    let at = 0;
    for (const part of parts) at += access.write(part, { at });
    access.flush();
  } finally {
    access.close();
  }
  await fresh.move(name);
}

/** The private file system where it is there and allowed (private windows may refuse it). */
export async function openStore(): Promise<RunStore> {
  try {
    const root = await navigator.storage.getDirectory();
    return new OpfsStore(await root.getDirectoryHandle("tabgpt", { create: true }));
  } catch {
    return new MemoryStore();
  }
}
