/**
 * @file The run in the worker: what it is doing, its curves and samples, and the commands to it.
 */
import { messageOf } from "../core/index.ts";
import type { CorpusRef } from "../checkpoint/info.ts";
import type { TrainingClient } from "../worker/client.ts";
import type { Engine, RunEvent, RunState, SampleSettings } from "../worker/protocol.ts";
import { count, loss } from "./format.ts";
import type { Notices } from "./notices.svelte.ts";
import { Series } from "./series.ts";

export interface SampleEntry {
  key: number;
  live: boolean;
  step: number;
  prompt: string;
  text: string;
  done: boolean;
}

const BUSY: RunState[] = ["training", "evaluating", "sampling"];
const MAX_SAMPLES = 40;

export class Run {
  readonly #client: TrainingClient;
  readonly #notices: Notices;

  state = $state<RunState>("idle");
  /** A start or resume is under way: the worker loads its build. */
  opening = $state(false);
  /** Of the GPU's kernels, how many are compiled; "" where none are awaited. */
  preparing = $state("");
  /** What it runs on and learns from; null while there is no run. */
  host = $state.raw<{ engine: Engine; isa: string; memoryBytes: number; vocabSize: number; corpus: CorpusRef | null } | null>(null);
  step = $state(0);
  totalSteps = $state(0);
  clip = $state(0);
  tokensPerStep = $state(0);
  series = new Series();
  /** Rises whenever the series changed, so that charts redraw. */
  version = $state(0);
  samples = $state<SampleEntry[]>([]);
  sampling = $state(false);
  sampleError = $state("");
  /** Why its newest save failed; "" where it is kept. */
  unsaved = $state("");

  busy = $derived(this.opening || BUSY.includes(this.state));
  active = $derived(this.busy || this.state === "paused");

  #sampleKey = 0;

  constructor(client: TrainingClient, notices: Notices) {
    this.#client = client;
    this.#notices = notices;
  }

  /** Gives the last run's worker back and asks a fresh one for a run. */
  async launch(request: () => Promise<null>): Promise<void> {
    this.reset();
    this.opening = true;
    this.preparing = "";
    await this.#notices.guard(async () => {
      await this.#client.renew();
      await request();
    });
    this.opening = false;
  }

  pause(): Promise<void> {
    return this.#notices.guard(() => this.#client.request("pause", null));
  }

  resume(): Promise<void> {
    return this.#notices.guard(() => this.#client.request("resume", null));
  }

  oneStep(): Promise<void> {
    return this.#notices.guard(() => this.#client.request("step", null));
  }

  stop(): Promise<void> {
    return this.#notices.guard(() => this.#client.request("stop", null));
  }

  /** Text from the run, or from the saved one, which `engine` then opens. */
  async sample(settings: SampleSettings, engine: Engine): Promise<void> {
    this.sampling = true;
    this.sampleError = "";
    try {
      await this.#client.request("sample", { settings, engine });
    } catch (error) {
      this.sampleError = messageOf(error);
    }
    this.sampling = false;
  }

  cancelSample(): Promise<void> {
    return this.#notices.guard(() => this.#client.request("cancelSample", null));
  }

  /** A hidden tab may be frozen or closed without another word: what was trained is saved first. */
  async saveIfHidden(): Promise<void> {
    if (document.hidden && BUSY.includes(this.state)) await this.#notices.guard(() => this.#client.request("save", null));
  }

  reset(): void {
    this.series = new Series();
    this.step = 0;
    this.totalSteps = 0;
    this.state = "idle";
    this.host = null;
    this.unsaved = "";
    this.samples = [];
    this.version++;
    this.#notices.clear();
  }

  /** Its worker is gone. */
  lose(): void {
    this.opening = false;
    this.sampling = false;
    this.host = null;
    if (this.active) this.state = "failed";
  }

  receive(event: RunEvent): void {
    switch (event.event) {
      case "preparing":
        this.preparing = `${event.done} of ${event.total}`;
        break;
      case "ready":
        this.#begin(event);
        break;
      case "history":
        this.series = new Series();
        this.series.addSteps(event.points);
        event.evals.forEach((point) => this.series.addEval(point));
        this.version++;
        break;
      case "metrics":
        this.series.addSteps(event.points);
        this.step = event.points.at(-1)!.step;
        this.version++;
        break;
      case "evaluated":
        this.series.addEval(event.point);
        this.version++;
        this.#notices.announcement = `Step ${event.point.step}: validation loss ${loss(event.point.valLoss)}.`;
        break;
      case "state":
        this.state = event.state;
        this.step = event.step;
        if (!BUSY.includes(event.state)) this.#notices.announcement = `Run ${event.state} at step ${count(event.step)}.`;
        break;
      case "sample":
        this.#showSample(event);
        break;
    }
  }

  #begin({ engine, isa, memoryBytes, info, totalSteps }: RunEvent & { event: "ready" }): void {
    this.host = { engine, isa, memoryBytes, vocabSize: info.model.vocab_size as number, corpus: info.corpus };
    const recipe = { ...info.model, ...info.train } as Record<string, number>;
    this.clip = recipe.grad_clip!;
    this.tokensPerStep = recipe.batch_size! * recipe.grad_accum! * recipe.ctx!;
    this.step = info.step;
    this.totalSteps = totalSteps;
  }

  /** Extends the newest entry while it is being written, else starts one. */
  #showSample({ live, step, prompt, text, done }: Omit<SampleEntry, "key">): void {
    const newest = this.samples[0];
    if (newest && !newest.done && newest.live === live) {
      newest.text = text;
      newest.done = done;
    } else {
      this.samples.unshift({ key: ++this.#sampleKey, live, step, prompt, text, done });
      if (this.samples.length > MAX_SAMPLES) this.samples.length = MAX_SAMPLES;
    }
  }
}
