/**
 * @file The page's state: what is chosen, what is running, what is kept. Components read it and call
 * its methods; only it and its parts talk to the worker.
 */
import type { Values } from "../presets.ts";
import { TrainingClient } from "../worker/client.ts";
import type { RunEvent } from "../worker/protocol.ts";
import { Choice } from "./choice.svelte.ts";
import { Keeping } from "./keeping.svelte.ts";
import { Notices } from "./notices.svelte.ts";
import { Run } from "./run.svelte.ts";

export class Lab {
  readonly notices = new Notices();
  readonly choice: Choice;
  readonly run: Run;
  readonly kept: Keeping;
  readonly #client: TrainingClient;

  canStart = $derived.by(() => this.choice.valid && !this.run.active);
  canSample = $derived.by(() => this.run.host !== null || this.kept.saved !== null);

  constructor(siteUrl: string) {
    const { notices } = this;
    const client = new TrainingClient(new URL("wasm/", siteUrl).href, (event) => this.#receive(event));
    this.#client = client;
    this.choice = new Choice(siteUrl, client);
    this.run = new Run(client, notices);
    this.kept = new Keeping({ client, choice: this.choice, run: this.run, notices });
  }

  /** Detects, opens the worker, finds the saved run and fetches the default corpus. */
  async open(): Promise<void> {
    await this.choice.detect();
    await this.notices.guard(async () => {
      const { saved, durable } = await this.#client.open();
      this.kept.saved = saved;
      this.kept.durable = durable;
    });
    void this.#findGpu();
    await this.kept.persist(false);
    await this.choice.useDefaultCorpus();
  }

  async #findGpu(): Promise<void> {
    const isAutomatic = await this.choice.findGpu();
    if (isAutomatic && !this.run.active) this.choice.useGpu(true);
  }

  async start(): Promise<void> {
    const { choice } = this;
    const { corpus } = choice;
    if (!this.canStart || !corpus) return;
    const request = { values: choice.values as Values, corpus, engine: { ...choice.engine }, live: choice.sampleSettings() };
    await this.#launch(() => this.#client.request("start", request));
  }

  /** Trains the saved run on, exactly where it stands. */
  async continueSaved(): Promise<void> {
    const { choice } = this;
    const request = { engine: { ...choice.engine }, live: choice.sampleSettings() };
    await this.#launch(async () => {
      const corpus = this.kept.saved?.hasCorpus ? choice.corpus : await choice.corpusAtHand();
      return this.#client.request("continue", { ...request, corpus });
    });
  }

  /** Trains a stopped run on: as it stands in the worker or, on another engine than it had, from its save. */
  async resume(): Promise<void> {
    const { engine } = this.choice;
    const had = this.run.host?.engine;
    const isOnCpu = had?.build === engine.build && had.width === engine.width && had.threads === engine.threads;
    const isSame = had?.gpu === engine.gpu && (engine.gpu ? had.kernels === engine.kernels : isOnCpu);
    if (isSame || this.run.unsaved) await this.run.resume();
    else await this.continueSaved();
  }

  async #launch(request: () => Promise<null>): Promise<void> {
    void this.kept.persist(true);
    await this.run.launch(request);
  }

  sample(): Promise<void> {
    return this.run.sample(this.choice.sampleSettings(), { ...this.choice.engine });
  }

  #receive(event: RunEvent): void {
    const { notices, run } = this;
    switch (event.event) {
      case "saved":
        this.kept.saved = event.saved;
        run.unsaved = "";
        break;
      case "unsaved":
        run.unsaved = event.message;
        break;
      case "lost":
        notices.error = event.message;
        run.lose();
        break;
      case "notice":
        notices.notice = event.message;
        break;
      case "error":
        notices.error = event.message;
        run.opening = false;
        break;
      case "tuning":
        if (this.choice.tuning) this.choice.tuning = { done: event.done, total: event.total };
        break;
      case "checked":
        this.choice.rememberCheck(event.key);
        break;
      case "ready":
        this.choice.showRecipe(event.info);
        run.receive(event);
        break;
      default:
        run.receive(event);
    }
  }
}
