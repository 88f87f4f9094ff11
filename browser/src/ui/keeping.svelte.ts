/**
 * @file The one run that this browser keeps: its card, its download, an upload in its place.
 */
import type { TrainingClient } from "../worker/client.ts";
import type { SavedRun } from "../worker/protocol.ts";
import type { Choice } from "./choice.svelte.ts";
import type { Notices } from "./notices.svelte.ts";
import type { Run } from "./run.svelte.ts";

/** What it works with. */
interface Surroundings {
  client: TrainingClient;
  choice: Choice;
  run: Run;
  notices: Notices;
}

export class Keeping {
  readonly #with: Surroundings;

  saved = $state.raw<SavedRun | null>(null);
  /** False: this browser keeps no files for the page, so a run lasts as long as the tab. */
  durable = $state(true);
  /** The browser will not clear it by itself when its disk runs short. */
  persistent = $state(false);
  /** What is being done to it; "" for nothing. */
  busy = $state("");

  /** Closing the tab would lose the run. */
  atRisk = $derived.by(() => {
    const { run } = this.#with;
    return run.unsaved !== "" || (!this.durable && (this.saved !== null || run.active));
  });

  constructor(surroundings: Surroundings) {
    this.#with = surroundings;
  }

  /** Finds out, and asks the browser to promise it where `ask`: some then ask the person, so only on a press. */
  async persist(ask: boolean): Promise<void> {
    try {
      this.persistent = (await navigator.storage.persisted()) || (ask && (await navigator.storage.persist()));
    } catch {
      this.persistent = false; // no such promise in this browser, or none for this page
    }
  }

  /** The saved run, or the one in the worker where that could not be saved. */
  async download(which: "run" | "saved"): Promise<void> {
    await this.#doing("Packing the run", async () => {
      const { name, blob } = await this.#with.client.request("download", { which });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    });
  }

  async upload(list: FileList): Promise<void> {
    const { client, choice, run, notices } = this.#with;
    await this.#doing("Reading the upload", async () => {
      const files = [...list].map((file) => ({ name: file.name, file }));
      run.reset();
      await client.renew();
      this.saved = await client.request("load", { files, engine: { ...choice.engine } });
      notices.announcement = `Run uploaded, step ${this.saved.info.step}.`;
    });
  }

  async delete(): Promise<void> {
    await this.#doing("Deleting", async () => {
      await this.#with.client.request("delete", null);
      this.saved = null;
      this.#with.notices.announcement = "Saved run deleted.";
    });
  }

  async #doing(what: string, work: () => Promise<void>): Promise<void> {
    this.busy = what;
    await this.#with.notices.guard(work);
    this.busy = "";
  }
}
