/**
 * @file The page's end of the protocol. A run gets a worker of its own, so that the memory and the
 * threads of the last one are really given back.
 */
import { messageOf, TabgptError } from "../core/errors.ts";
import type { Kept } from "../checkpoint/store.ts";
import type { CommandName, FromWorker, Opened, Reply, Request, RunEvent } from "./protocol.ts";

/** Commands that leave a session in the worker. */
const OCCUPYING: CommandName[] = ["start", "continue", "load", "sample"];

interface Waiting {
  resolve: (reply: never) => void;
  reject: (error: Error) => void;
}

export class TrainingClient {
  readonly #wasmUrl: string;
  readonly #onEvent: (event: RunEvent) => void;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | null = null;
  #opened: Promise<Opened> | null = null;
  #kept: Kept | null = null;
  #nextId = 1;
  #occupied = false;

  constructor(wasmUrl: string, onEvent: (event: RunEvent) => void) {
    this.#wasmUrl = wasmUrl;
    this.#onEvent = onEvent;
  }

  /** Starts the worker; gives the saved run's card. After a failure the next call tries again. */
  open(): Promise<Opened> {
    if (!this.#opened) {
      const opened = this.#spawn();
      opened.catch((error: unknown) => {
        if (this.#opened === opened) this.close(messageOf(error));
      });
      this.#opened = opened;
    }
    return this.#opened;
  }

  /** Sends one command; a refusal rejects with the worker's sentence. */
  async request<K extends CommandName>(command: K, request: Request<K>): Promise<Reply<K>> {
    await this.open();
    if (OCCUPYING.includes(command)) this.#occupied = true;
    return this.#post(command, request);
  }

  /** Ends the worker if it holds a session, so that the next command finds a fresh one. */
  async renew(): Promise<void> {
    if (this.#occupied) this.close("a new run took its place");
    await this.open();
  }

  close(reason: string): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#opened = null;
    this.#occupied = false;
    for (const { reject } of this.#waiting.values()) reject(new TabgptError(reason));
    this.#waiting.clear();
  }

  #spawn(): Promise<Opened> {
    this.#worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module", name: "tabgpt" });
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      // Emscripten throws the event of a thread that failed, which has no text.
      const why = /\[object/.test(event.message) ? "a thread of it could not run, so choose a build without threads" : event.message;
      const message = `The training worker failed: ${why || "its script could not be loaded"}. What was saved is kept; reload the page.`;
      this.close(message);
      this.#onEvent({ event: "lost", message });
    };
    return this.#post("open", { wasmUrl: this.#wasmUrl, kept: this.#kept });
  }

  #post<K extends CommandName>(command: K, request: Request<K>): Promise<Reply<K>> {
    const id = this.#nextId++;
    return new Promise<Reply<K>>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
      this.#worker!.postMessage({ id, command, request });
    });
  }

  #receive(message: FromWorker): void {
    if (message.type === "event") {
      this.#onEvent(message);
      return;
    }
    if (message.type === "kept") {
      this.#kept = message.kept;
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === "done") waiting?.resolve(message.reply as never);
    else waiting?.reject(new TabgptError(message.message));
  }
}
