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
  write(files: FileParts): Promise<void>;
  clear(): Promise<void>;
  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null>;
  writeCorpus(corpus: Corpus): Promise<void>;
}

function join(parts: Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

class MemoryStore implements RunStore {
  readonly durable = false;
  #files: Files = new Map();
  #corpus: Corpus | null = null;

  read(): Promise<Files> {
    return Promise.resolve(this.#files);
  }

  write(files: FileParts): Promise<void> {
    this.#files = new Map(files.map(({ name, parts }) => [name, join(parts)]));
    return Promise.resolve();
  }

  clear(): Promise<void> {
    this.#files = new Map();
    return Promise.resolve();
  }

  readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return Promise.resolve(this.#corpus?.sha256 === sha256 ? this.#corpus.raw : null);
  }

  writeCorpus(corpus: Corpus): Promise<void> {
    this.#corpus = corpus;
    return Promise.resolve();
  }
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
    const files: Files = new Map();
    for await (const [name, handle] of (await this.#folder("run")).entries()) {
      if (handle.kind === "file") files.set(name, await bytesOf(handle as FileSystemFileHandle));
    }
    return files;
  }

  async write(files: FileParts): Promise<void> {
    const folder = await this.#folder("run");
    for (const { name, parts } of files) await replaceFile(folder, name, parts);
    const kept = new Set(files.map(({ name }) => name));
    for await (const name of folder.keys()) {
      if (isOptimizerFile(name) && !kept.has(name)) await folder.removeEntry(name);
    }
  }

  async clear(): Promise<void> {
    for (const name of ["run", "corpus"]) await this.#root.removeEntry(name, { recursive: true }).catch(ignoreMissing);
  }

  async readCorpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    try {
      return await bytesOf(await (await this.#folder("corpus")).getFileHandle(`${sha256}.txt`));
    } catch (error) {
      ignoreMissing(error);
      return null;
    }
  }

  /** Keeps this corpus only: the run that it belongs to is the only one kept. */
  async writeCorpus(corpus: Corpus): Promise<void> {
    const folder = await this.#folder("corpus");
    const kept = `${corpus.sha256}.txt`;
    await replaceFile(folder, kept, [corpus.raw]);
    for await (const name of folder.keys()) if (name !== kept) await folder.removeEntry(name);
  }
}

async function bytesOf(handle: FileSystemFileHandle): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await (await handle.getFile()).arrayBuffer());
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
