/**
 * @file Where the tab keeps its one run: the origin's private file system where the browser has it, else
 * memory that lasts as long as the tab. Written in the order of the checkpoint's files, so that the
 * model's replacement commits it; a crash or a full disk before that leaves the previous run whole.
 */
import type { Corpus } from "../corpus.ts";
import type { FileParts, Files } from "./checkpoint.ts";

/** What is kept in memory. Blobs outlive the worker that made them, so the next one takes them over. */
export interface Kept {
  files: Map<string, Blob>;
  corpus: Corpus | null;
}

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

  list(): Promise<Map<string, Blob>> {
    return Promise.resolve(this.#kept.files);
  }

  write(files: FileParts, corpus: Corpus | null): Promise<void> {
    const blobs = new Map(files.map(({ name, parts }) => [name, new Blob(parts)]));
    return this.#keep({ files: blobs, corpus: corpus ?? this.#kept.corpus });
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
      if (handle.kind !== "file") continue;
      const file = await (handle as FileSystemFileHandle).getFile();
      // A tab killed before its first save was whole leaves a file without content.
      if (file.size > 0) files.set(name, file);
    }
    return files;
  }

  async write(files: FileParts, corpus: Corpus | null): Promise<void> {
    const folder = await this.#folder("run");
    const corpora = await this.#folder("corpus");
    const kept = corpus ? corpusFile(corpus.sha256) : "";
    if (corpus && (await sizeOf(corpora, kept)) === 0) await replaceFile(corpora, kept, [corpus.raw]);
    const added: string[] = [];
    try {
      for (const { name, parts } of files) {
        if ((await sizeOf(folder, name)) === 0) added.push(name);
        await replaceFile(folder, name, parts);
      }
    } catch (error) {
      // The previous model stands; what this save added would only fill the disk further.
      await prune(folder, (name) => added.includes(name));
      throw error;
    }
    const current = new Set(files.map(({ name }) => name));
    await prune(folder, (name) => !current.has(name));
    if (corpus) await prune(corpora, (name) => name !== kept);
  }

  async clear(): Promise<void> {
    for (const name of ["run", "corpus"]) await this.#root.removeEntry(name, { recursive: true }).catch(ignoreMissing);
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

function corpusFile(sha256: string): string {
  return `${sha256}.txt`;
}

/** Bytes of a file; 0 where there is none. */
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
    try {
      for (const part of parts) await writable.write(part);
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
    for (const part of parts) at += access.write(part, { at });
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
    const root = await navigator.storage.getDirectory();
    return new OpfsStore(await root.getDirectoryHandle("tabgpt", { create: true }));
  } catch {
    return new MemoryStore(kept, onChange);
  }
}
