/**
 * @file The tab's one saved run: reading, replacing and describing it.
 */
import { TabgptError } from "../core/index.ts";
import {
  METRICS_FILE,
  MODEL_FILE,
  readCheckpoint,
  readInfo,
  writeCheckpoint,
  type Checkpoint,
  type Files,
} from "../checkpoint/checkpoint.ts";
import { openStore, type RunStore } from "../checkpoint/store.ts";
import { isZip, unzipFiles, zipFiles } from "../checkpoint/zip.ts";
import type { Corpus } from "../corpus.ts";
import { fromJsonl } from "./metrics.ts";
import type { SavedRun } from "./protocol.ts";

const LOCK = "tabgpt-run";
const READ_TRIES = 5;

export class Archive {
  readonly #store: RunStore;
  readonly #producer: string;
  #mayWrite: Promise<boolean> | null = null;

  private constructor(store: RunStore, producer: string) {
    this.#store = store;
    this.#producer = producer;
  }

  static async open(producer: string): Promise<Archive> {
    return new Archive(await openStore(), producer);
  }

  /** The saved run's card; null where there is none. Throws TabgptError where it cannot be read. */
  async describe(): Promise<SavedRun | null> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#describe();
      } catch (error) {
        // Another tab may replace a file between its listing and its reading.
        if (!(error instanceof DOMException) || tries === READ_TRIES) throw error;
      }
    }
  }

  async #describe(): Promise<SavedRun | null> {
    const files = await this.#store.list();
    const model = files.get(MODEL_FILE);
    if (!model) return null;
    const { info, optimizer } = await readInfo(model);
    const lines = fromJsonl((await files.get(METRICS_FILE)?.text()) ?? "").filter(({ step }) => step <= info.step);
    return {
      info,
      durable: this.#store.durable,
      bytes: [...files.values()].reduce((sum, file) => sum + file.size, 0),
      resumable: info.train !== null && optimizer !== null && files.has(optimizer),
      hasCorpus: info.corpus !== null && (await this.#store.readCorpus(info.corpus.sha256)) !== null,
      valLoss: lines.findLast(({ valLoss }) => valLoss !== undefined)?.valLoss ?? null,
      savedAt: model instanceof File ? model.lastModified : Date.now(),
    };
  }

  async read(): Promise<Checkpoint> {
    return readCheckpoint(await this.#store.read());
  }

  /** Replaces the saved run. False where another tab holds it. */
  async write(checkpoint: Checkpoint, corpus: Corpus | null): Promise<boolean> {
    this.#mayWrite ??= holdLock();
    if (!(await this.#mayWrite)) return false;
    await this.#store.write(writeCheckpoint(checkpoint, this.#producer), corpus);
    return true;
  }

  async delete(): Promise<void> {
    await this.#store.clear();
  }

  corpus(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.#store.readCorpus(sha256);
  }

  async zip(): Promise<{ name: string; blob: Blob }> {
    const files = await this.#store.read();
    const model = files.get(MODEL_FILE);
    if (!model) throw new TabgptError("there is no saved run to download; train one first");
    const { info } = await readInfo(new Blob([model]));
    const parts = [...files].map(([name, bytes]) => ({ name, parts: [bytes] }));
    return {
      name: `tabgpt-step-${String(info.step).padStart(6, "0")}.zip`,
      blob: new Blob(zipFiles(parts), { type: "application/zip" }),
    };
  }
}

/** One tab at a time writes the run: the lock lasts as long as its worker. */
function holdLock(): Promise<boolean> {
  if (!("locks" in navigator)) return Promise.resolve(true);
  return new Promise((resolve) => {
    void navigator.locks.request(LOCK, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise(() => undefined);
    });
  });
}

/** A checkpoint from uploaded files: one zip, or a model file with or without its companions. */
export function uploadedCheckpoint(uploads: { name: string; bytes: Uint8Array<ArrayBuffer> }[]): Checkpoint {
  const files: Files = new Map();
  for (const { name, bytes } of uploads) {
    if (bytes.length === 0) throw new TabgptError(`${name} is empty`);
    if (isZip(bytes)) for (const [inner, data] of unzipFiles(bytes)) files.set(inner, data);
    else files.set(uploads.length === 1 && name.endsWith(".safetensors") ? MODEL_FILE : name, bytes);
  }
  return readCheckpoint(files);
}
