/**
 * @file The page's state: what is chosen, what is running, what is kept. Components read it and call
 * its methods; only this file talks to the worker.
 */
import { chooseBuild, detectFeatures, memoryObstacle, messageOf, threadLimit, usableBuilds, type Features } from "../core/index.ts";
import type { CorpusRef, RunInfo } from "../checkpoint/checkpoint.ts";
import { corpusFromBytes, corpusProblem, DEFAULT_CORPUS, type Corpus } from "../corpus.ts";
import { DEFAULT_PRESET, fieldNamed, FIELDS, PRESETS, presetValues, problemsIn, type Values } from "../presets.ts";
import { TrainingClient } from "../worker/client.ts";
import type { CorpusFacts, Engine, PlanFacts, RunEvent, RunState, SampleSettings, SavedRun } from "../worker/protocol.ts";
import { count, loss, parse, typed } from "./format.ts";
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
const PLAN_DELAY_MS = 150;
/** Of a text by Shakespeare; another begins with nothing in particular. */
const DEFAULT_PROMPT = "ROMEO:\n";

export class Lab {
  readonly siteUrl: string;
  readonly #client: TrainingClient;

  // What is chosen.
  raw = $state<Record<string, string>>(rawOf(presetValues(DEFAULT_PRESET)));
  corpus = $state.raw<Corpus | null>(null);
  facts = $state.raw<CorpusFacts | null>(null);
  corpusError = $state("");
  /** What is still to be chosen. */
  corpusHint = $state("");
  engine = $state<Engine>({ build: "scalar", threads: 1 });
  prompt = $state(DEFAULT_PROMPT);
  stopText = $state("");

  // What this browser can do.
  features = $state.raw<Features | null>(null);
  engineReason = $state("Looking at what this browser can run.");

  // What would come of it.
  plan = $state.raw<PlanFacts | null>(null);
  planError = $state("");

  // What is running.
  runState = $state<RunState>("idle");
  /** A start or resume is under way: the worker loads its build. */
  opening = $state(false);
  running = $state.raw<{ engine: Engine; isa: string; memoryBytes: number; vocabSize: number; corpus: CorpusRef | null } | null>(null);
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
  error = $state("");
  notice = $state("");
  /** For screen readers: what just happened, politely. */
  announcement = $state("");

  // What is kept.
  saved = $state.raw<SavedRun | null>(null);
  /** False: this browser keeps no files for the page, so a run lasts as long as the tab. */
  durable = $state(true);
  /** Why the newest save of the run failed; "" where it is kept. */
  unsaved = $state("");
  busySaving = $state("");

  values = $derived<Record<string, unknown>>(valuesOf(this.raw));
  problems = $derived(problemsIn(this.values));
  lengthProblem = $derived(
    this.facts && !this.problems.ctx ? corpusProblem(this.facts.tokens, this.values.ctx as number) : "",
  );
  busy = $derived(this.opening || BUSY.includes(this.runState));
  active = $derived(this.busy || this.runState === "paused");
  memoryProblem = $derived(this.plan ? memoryObstacle(this.plan.memory, this.engine.threads, 32) : "");
  recipeValid = $derived(Object.keys(this.problems).length === 0);
  canStart = $derived(
    this.recipeValid &&
      this.facts !== null &&
      !this.active &&
      [this.lengthProblem, this.corpusError, this.planError, this.memoryProblem].every((problem) => problem === ""),
  );
  canSample = $derived(this.running !== null || this.saved !== null);
  /** Closing the tab would lose the run. */
  atRisk = $derived(this.unsaved !== "" || (!this.durable && (this.saved !== null || this.active)));
  /** The preset that the form holds; "" where a field was changed. */
  preset = $derived(presetOf(this.raw));

  #planTimer: ReturnType<typeof setTimeout> | undefined;
  #planTurn = 0;
  #corpusTurn = 0;
  #sampleKey = 0;

  constructor(siteUrl: string) {
    this.siteUrl = siteUrl;
    this.#client = new TrainingClient(new URL("wasm/", siteUrl).href, (event) => this.#receive(event));
  }

  /** Detects, opens the worker, finds the saved run and fetches the default corpus. */
  async open(): Promise<void> {
    const features = await detectFeatures();
    const { build, threads, reason } = chooseBuild(features);
    this.features = features;
    this.engine = { build: build.name, threads };
    this.engineReason = reason;
    await this.#guard(async () => {
      const { saved, durable } = await this.#client.open();
      this.saved = saved;
      this.durable = durable;
    });
    await this.useDefaultCorpus();
  }

  get builds(): ReturnType<typeof usableBuilds> {
    return this.features ? usableBuilds(this.features) : [];
  }

  get maxThreads(): number {
    return this.features ? threadLimit(this.features) : 1;
  }

  // -- choosing --

  choosePreset(name: string): void {
    this.raw = { ...this.raw, ...rawOf(recipeOf(presetValues(name))) };
    this.replan();
  }

  setField(name: string, text: string): void {
    this.raw[name] = text;
    if (name === "tokenizer") void this.#inspect();
    else this.replan();
  }

  setThreads(threads: number): void {
    this.engine.threads = threads;
    this.replan();
  }

  async useDefaultCorpus(): Promise<void> {
    await this.useCorpus(DEFAULT_CORPUS, async () => {
      try {
        const response = await fetch(new URL(`corpus/${DEFAULT_CORPUS}`, this.siteUrl));
        if (!response.ok) throw new Error(`the server answered ${response.status}`);
        return await response.arrayBuffer();
      } catch (error) {
        throw new Error(`The default text could not be fetched (${messageOf(error)}); paste a text or choose a file.`);
      }
    });
  }

  /** Until the next text has been read there is none: a start cannot take the one before it. */
  withoutCorpus(hint = ""): void {
    ++this.#corpusTurn;
    this.corpus = null;
    this.facts = null;
    this.corpusError = "";
    this.corpusHint = hint;
  }

  async useCorpus(name: string, read: () => Promise<ArrayBuffer>): Promise<void> {
    this.withoutCorpus();
    const turn = this.#corpusTurn;
    try {
      const corpus = await corpusFromBytes(name, new Uint8Array(await read()));
      if (turn !== this.#corpusTurn) return;
      this.corpus = corpus;
    } catch (error) {
      if (turn === this.#corpusTurn) this.corpusError = messageOf(error);
      return;
    }
    this.#suitPrompt();
    await this.#inspect();
  }

  /** Unless the person wrote one. */
  #suitPrompt(): void {
    const shakespeare = this.corpus?.name === DEFAULT_CORPUS;
    if (this.prompt === (shakespeare ? "" : DEFAULT_PROMPT)) this.prompt = shakespeare ? DEFAULT_PROMPT : "";
  }

  async #inspect(): Promise<void> {
    const { corpus } = this;
    if (!corpus) return;
    const turn = ++this.#corpusTurn;
    try {
      const facts = await this.#client.request("corpus", { corpus, tokenizer: this.raw.tokenizer! });
      if (turn !== this.#corpusTurn) return;
      this.facts = facts;
      this.corpusError = "";
      this.replan();
    } catch (error) {
      if (turn !== this.#corpusTurn) return;
      this.facts = null;
      this.corpusError = messageOf(error);
    }
  }

  /** Asks the core for sizes, a moment after the last change. */
  replan(): void {
    clearTimeout(this.#planTimer);
    this.#planTimer = setTimeout(() => void this.#plan(), PLAN_DELAY_MS);
  }

  async #plan(): Promise<void> {
    if (!this.recipeValid || !this.facts) return;
    const turn = ++this.#planTurn;
    const { tokens, vocabSize } = this.facts;
    const values = this.values as Values;
    try {
      const plan = await this.#client.request("plan", { values, vocabSize, tokens, threads: this.engine.threads });
      if (turn !== this.#planTurn) return;
      this.plan = plan;
      this.planError = "";
    } catch (error) {
      if (turn === this.#planTurn) this.planError = messageOf(error);
    }
  }

  // -- running --

  async start(): Promise<void> {
    const { corpus } = this;
    if (!this.canStart || !corpus) return;
    const request = { values: this.values as Values, corpus, engine: { ...this.engine }, live: this.sampleSettings() };
    await this.#launch(() => this.#client.request("start", request));
  }

  /** Trains the saved run on, exactly where it stands. */
  async continueSaved(): Promise<void> {
    const request = { engine: { ...this.engine }, corpus: this.corpus, live: this.sampleSettings() };
    await this.#launch(() => this.#client.request("continue", request));
  }

  async #launch(request: () => Promise<null>): Promise<void> {
    this.#reset();
    this.opening = true;
    await this.#guard(async () => {
      await this.#client.renew();
      await request();
    });
    this.opening = false;
  }

  pause(): Promise<void> {
    return this.#guard(() => this.#client.request("pause", null));
  }

  resume(): Promise<void> {
    return this.#guard(() => this.#client.request("resume", null));
  }

  oneStep(): Promise<void> {
    return this.#guard(() => this.#client.request("step", null));
  }

  stop(): Promise<void> {
    return this.#guard(() => this.#client.request("stop", null));
  }

  sampleSettings(): SampleSettings {
    const value = (name: string): number => (this.problems[name] ? fieldNamed(name).default : this.values[name]) as number;
    return {
      prompt: this.prompt,
      maxNewTokens: value("max_new_tokens"),
      temperature: value("temperature"),
      topK: value("top_k"),
      topP: value("top_p"),
      seed: value("sample_seed"),
      stop: this.stopText,
    };
  }

  async sample(): Promise<void> {
    this.sampling = true;
    this.sampleError = "";
    try {
      await this.#client.request("sample", { settings: this.sampleSettings(), engine: { ...this.engine } });
    } catch (error) {
      this.sampleError = messageOf(error);
    }
    this.sampling = false;
  }

  cancelSample(): Promise<void> {
    return this.#guard(() => this.#client.request("cancelSample", null));
  }

  // -- keeping --

  /** A hidden tab may be frozen or closed without another word: what was trained is saved first. */
  async saveIfHidden(): Promise<void> {
    if (document.hidden && BUSY.includes(this.runState)) await this.#guard(() => this.#client.request("save", null));
  }

  /** The saved run, or the one in the worker where that could not be saved. */
  async download(which: "run" | "saved"): Promise<void> {
    await this.#keeping("Packing the run", async () => {
      const { name, blob } = await this.#client.request("download", { which });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    });
  }

  async upload(list: FileList): Promise<void> {
    await this.#keeping("Reading the upload", async () => {
      const files = await Promise.all(
        [...list].map(async (file) => ({ name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) })),
      );
      this.#reset();
      await this.#client.renew();
      this.saved = await this.#client.request("load", { files, engine: { ...this.engine } });
      this.announcement = `Run uploaded, step ${this.saved.info.step}.`;
    });
  }

  async deleteSaved(): Promise<void> {
    await this.#keeping("Deleting", async () => {
      await this.#client.request("delete", null);
      this.saved = null;
      this.announcement = "Saved run deleted.";
    });
  }

  async #keeping(what: string, work: () => Promise<void>): Promise<void> {
    this.busySaving = what;
    await this.#guard(work);
    this.busySaving = "";
  }

  async #guard(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.error = messageOf(error);
    }
  }

  #reset(): void {
    this.series = new Series();
    this.step = 0;
    this.totalSteps = 0;
    this.runState = "idle";
    this.running = null;
    this.error = "";
    this.notice = "";
    this.unsaved = "";
    this.samples = [];
    this.version++;
  }

  #receive(event: RunEvent): void {
    switch (event.event) {
      case "ready": {
        const { engine, isa, memoryBytes, info } = event;
        this.running = { engine, isa, memoryBytes, vocabSize: info.model.vocab_size as number, corpus: info.corpus };
        this.#showRecipe(info);
        const recipe = { ...info.model, ...info.train } as Record<string, number>;
        this.clip = recipe.grad_clip!;
        this.tokensPerStep = recipe.batch_size! * recipe.grad_accum! * recipe.ctx!;
        this.step = info.step;
        this.totalSteps = event.totalSteps;
        break;
      }
      case "history":
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
        this.announcement = `Step ${event.point.step}: validation loss ${loss(event.point.valLoss)}.`;
        break;
      case "state":
        this.runState = event.state;
        this.step = event.step;
        if (!BUSY.includes(event.state)) this.announcement = `Run ${event.state} at step ${count(event.step)}.`;
        break;
      case "sample":
        this.#showSample(event);
        break;
      case "saved":
        this.saved = event.saved;
        this.unsaved = "";
        break;
      case "unsaved":
        this.unsaved = event.message;
        break;
      case "lost":
        this.error = event.message;
        this.opening = false;
        this.sampling = false;
        this.running = null;
        if (this.active) this.runState = "failed";
        break;
      case "notice":
        this.notice = event.message;
        break;
      case "error":
        this.error = event.message;
        this.opening = false;
        break;
    }
  }

  /** A resumed run's settings in place of those that happened to be typed. */
  #showRecipe({ model, train, run, tokenizer }: RunInfo): void {
    const mlp = model.d_mlp === 4 * (model.d_model as number) ? 0 : model.d_mlp!;
    const values: Values = { ...model, ...train, ...run, d_mlp: mlp, tokenizer: tokenizer.kind };
    const known = this.raw.tokenizer === tokenizer.kind;
    this.raw = { ...this.raw, ...rawOf(values) };
    if (known) this.replan();
    else void this.#inspect();
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

function rawOf(values: Values): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typed(value)]));
}

/** The fields that a preset chooses. */
function recipeOf(values: Values): Values {
  const isChosen = ([name]: [string, unknown]): boolean => name !== "tokenizer" && name !== "seed" && fieldNamed(name).group !== "sample";
  return Object.fromEntries(Object.entries(values).filter(isChosen));
}

function presetOf(raw: Record<string, string>): string {
  const holds = (name: string): boolean =>
    Object.entries(rawOf(recipeOf(presetValues(name)))).every(([field, text]) => raw[field] === text);
  return Object.keys(PRESETS).find(holds) ?? "";
}

/** What the form holds: numbers where numbers are typed, else the text itself, for the message to name. */
function valuesOf(raw: Record<string, string>): Record<string, unknown> {
  return Object.fromEntries(
    FIELDS.map(({ name, type }) => {
      const text = raw[name] ?? "";
      const value = type === "choice" ? text : parse(text);
      return [name, Number.isNaN(value) ? text : value];
    }),
  );
}
