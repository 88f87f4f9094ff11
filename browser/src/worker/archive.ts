/**
 * @file The tab's one saved run: reading, replacing and describing it.
 */
import { TabgptError } from "../core/index.ts";
import {
  METRICS_FILE,
  MODEL_FILE,
  readCheckpoint,
  readInfo,
  verify,
  writeCheckpoint,
  type Checkpoint,
  type Files,
} from "../checkpoint/checkpoint.ts";
import type { Bytes, FileSource } from "../checkpoint/safetensors.ts";
import { openStore, type Kept, type RunStore } from "../checkpoint/store.ts";
import { isZip, unzipFiles, zipFiles } from "../checkpoint/zip.ts";
import type { Corpus } from "../corpus.ts";
import { fromJsonl } from "./metrics.ts";
import type { SavedRun, Upload } from "./protocol.ts";

const LOCK = "tabgpt-run";
/** A run's worker that has just been ended gives its lock back within this. */
const LOCK_PATIENCE_MS = 1000;
const READ_TRIES = 5;

export class Archive {
  readonly #store: RunStore;
  readonly #producer: string;
  #locked = false;
  #askedForLock = false;

  private constructor(store: RunStore, producer: string) {
    this.#store = store;
    this.#producer = producer;
  }

  static async open(producer: string, kept: Kept | null, onKept: (kept: Kept) => void): Promise<Archive> {
    const archive = new Archive(await openStore(kept, onKept), producer);
    // What cannot be read is told of when it is asked for; what cannot be removed now goes with the next save.
    await archive.#tidy().catch(() => undefined);
    return archive;
  }

  /** Removes what tabs that were killed in a save have left; not while another tab may be saving. */
  #tidy(): Promise<void> {
    return whileUnlocked(async () => {
      const saved = await this.describe();
      await this.#store.tidy(saved?.info.corpus?.sha256 ?? null);
    });
  }

  /** False: the run lasts as long as the tab. */
  get durable(): boolean {
    return this.#store.durable;
  }

  /** The saved run's card; null where there is none. Throws TabgptError where it cannot be read. */
  describe(): Promise<SavedRun | null> {
    return persistently(() => this.#describe());
  }

  async #describe(): Promise<SavedRun | null> {
    const files = await this.#store.list();
    const model = files.get(MODEL_FILE);
    if (!model) return null;
    const { info, optimizer } = await readInfo(model);
    const lines = fromJsonl((await files.get(METRICS_FILE)?.text()) ?? "").filter(({ step }) => step <= info.step);
    return {
      info,
      bytes: [...files.values()].reduce((sum, file) => sum + file.size, 0),
      resumable: info.train !== null && optimizer !== null && files.has(optimizer),
      hasCorpus: info.corpus !== null && (await this.#store.hasCorpus(info.corpus.sha256)),
      valLoss: lines.findLast(({ valLoss }) => valLoss !== undefined)?.valLoss ?? null,
      savedAt: model instanceof File ? model.lastModified : Date.now(),
    };
  }

  async read(): Promise<Checkpoint> {
    return readCheckpoint(await persistently(() => this.#store.read()));
  }

  /** Replaces the saved run. False where another tab holds it. */
  async write(checkpoint: Checkpoint, corpus: Corpus | null): Promise<boolean> {
    if (!(await this.#lock())) return false;
    await this.#store.write(writeCheckpoint(checkpoint, this.#producer), corpus);
    return true;
  }

  /** Waits for the lock once; after that it only asks, since a run waits with it. */
  async #lock(): Promise<boolean> {
    this.#locked ||= await holdLock(this.#askedForLock ? 0 : LOCK_PATIENCE_MS);
    this.#askedForLock = true;
    return this.#locked;
  }

  async delete(): Promise<void> {
    await this.#store.clear();
  }

  corpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.#store.readCorpus(sha256);
  }

  async zip(): Promise<Packed> {
    const files = await persistently(() => this.#store.read());
    const model = files.get(MODEL_FILE);
    if (!model) throw new TabgptError("there is no saved run to download; train one first");
    const { info } = await readInfo(model);
    return pack([...files].map(([name, blob]) => ({ name, size: blob.size, parts: piecesOf(blob) })), info.step);
  }

  /** The same of a run that is not saved. */
  zipOf(checkpoint: Checkpoint): Promise<Packed> {
    return pack(writeCheckpoint(checkpoint, this.#producer), checkpoint.info.step);
  }
}

interface Packed {
  name: string;
  blob: Blob;
}

async function pack(files: FileSource[], step: number): Promise<Packed> {
  return { name: `tabgpt-step-${String(step).padStart(6, "0")}.zip`, blob: await zipFiles(files) };
}

const PIECE_BYTES = 2 ** 26;

async function* piecesOf(blob: Blob): AsyncGenerator<Bytes> {
  for (let at = 0; at < blob.size; at += PIECE_BYTES) {
    yield new Uint8Array(await blob.slice(at, at + PIECE_BYTES).arrayBuffer());
  }
}

/** Another tab may put a save in another's place between its listing and its reading. */
async function persistently<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof DOMException) || tries === READ_TRIES) throw error;
    }
  }
}

/** Works while no tab holds the lock, or not at all. */
async function whileUnlocked(work: () => Promise<void>): Promise<void> {
  if (!("locks" in navigator)) return work();
  await navigator.locks.request(LOCK, { ifAvailable: true }, (lock) => (lock === null ? undefined : work()));
}

/** One tab at a time writes the run: the lock lasts as long as its worker. False where another has it. */
function holdLock(patienceMs: number): Promise<boolean> {
  if (!("locks" in navigator)) return Promise.resolve(true);
  const options = patienceMs > 0 ? { signal: AbortSignal.timeout(patienceMs) } : { ifAvailable: true };
  return new Promise((resolve) => {
    navigator.locks
      .request(LOCK, options, (lock) => {
        resolve(lock !== null);
        return lock === null ? undefined : new Promise(() => undefined);
      })
      .catch(() => resolve(false));
  });
}

/** A checkpoint from uploaded files: one zip, or a model file with or without its companions. */
export async function uploadedCheckpoint(uploads: Upload[]): Promise<Checkpoint> {
  const files: Files = new Map();
  for (const { name, file } of uploads) {
    if (file.size === 0) throw new TabgptError(`${name} is empty`);
    if (await isZip(file)) for (const [inner, data] of await unzipFiles(file)) files.set(inner, data);
    else files.set(uploads.length === 1 && name.endsWith(".safetensors") ? MODEL_FILE : name, file);
  }
  const checkpoint = await readCheckpoint(files);
  await verify(checkpoint);
  return checkpoint;
}
