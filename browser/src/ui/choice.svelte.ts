/**
 * @file What is chosen for the next run (text, recipe, engine, prompt), and what would come of it.
 */
import {
  chooseBuild,
  detectFeatures,
  messageOf,
  threadLimit,
  usableBuilds,
  type Features,
  type Width,
} from "../core/index.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import { corpusFromBytes, corpusProblem, DEFAULT_CORPUS, type Corpus } from "../corpus.ts";
import { DEFAULT_PRESET, fieldNamed, FIELDS, PRESETS, presetValues, problemsIn, type Values } from "../presets.ts";
import type { TrainingClient } from "../worker/client.ts";
import type { CorpusFacts, Engine, GpuVerdict, PlanFacts, SampleSettings } from "../worker/protocol.ts";
import { parse, typed } from "./format.ts";
import { recall, remember } from "./memory.ts";

const PLAN_DELAY_MS = 150;
/** Kernels that were found fastest, by adapter. */
const TUNED = "tabgpt-gpu-kernels";
/** Checks that are remembered: a few choices of kernels on one adapter. */
const MOST_CHECKS = 8;
/** Key of the checks that this browser's GPU passed, a line each. */
export const CHECKED = "tabgpt-gpu-checked";
/** Of a text by Shakespeare; another begins with nothing in particular. */
const DEFAULT_PROMPT = "ROMEO:\n";

export class Choice {
  readonly #siteUrl: string;
  readonly #client: TrainingClient;

  raw = $state<Record<string, string>>(rawOf(presetValues(DEFAULT_PRESET)));
  corpus = $state.raw<Corpus | null>(null);
  facts = $state.raw<CorpusFacts | null>(null);
  corpusError = $state("");
  /** What is still to be chosen. */
  corpusHint = $state("");
  engine = $state<Engine>({ build: "scalar", width: "auto", threads: 1, gpu: false, kernels: "", checked: "" });
  prompt = $state(DEFAULT_PROMPT);
  stopText = $state("");

  // What this browser can do.
  features = $state.raw<Features | null>(null);
  engineReason = $state("Looking at what this browser can run.");
  /** Null until the worker has found one, or none. */
  gpu = $state.raw<GpuVerdict | null>(null);
  gpuReason = $state("Looking for a GPU.");
  /** Sizes that were measured and all there are, while the GPU's kernels are; null else. */
  tuning = $state.raw<{ done: number; total: number } | null>(null);
  /** What came of it, in a sentence. */
  tuned = $state("");

  // What would come of it.
  plan = $state.raw<PlanFacts | null>(null);
  planError = $state("");

  values = $derived<Record<string, unknown>>(valuesOf(this.raw));
  problems = $derived(problemsIn(this.values));
  lengthProblem = $derived(
    this.facts && !this.problems.ctx ? corpusProblem(this.facts.tokens, this.values.ctx as number) : "",
  );
  memoryProblem = $derived(this.plan?.problem ?? "");
  recipeValid = $derived(Object.keys(this.problems).length === 0);
  /** A run of this would start. */
  valid = $derived(
    this.recipeValid &&
      this.facts !== null &&
      [this.lengthProblem, this.corpusError, this.planError, this.memoryProblem].every((problem) => problem === ""),
  );
  /** The preset that the form holds; "" where a field was changed. */
  preset = $derived(presetOf(this.raw));

  #planTimer: ReturnType<typeof setTimeout> | undefined;
  #planTurn = 0;
  #corpusTurn = 0;
  #reading: Promise<void> = Promise.resolve();

  constructor(siteUrl: string, client: TrainingClient) {
    this.#siteUrl = siteUrl;
    this.#client = client;
  }

  /** Finds the best build that this browser runs. */
  async detect(): Promise<void> {
    const features = await detectFeatures();
    const { build, threads, reason } = chooseBuild(features);
    this.features = features;
    this.engine = { build: build.name, width: "auto", threads, gpu: false, kernels: "", checked: recall(CHECKED) };
    this.engineReason = reason;
  }

  /** Asks the worker for a GPU; true where it is to be chosen by itself. */
  async findGpu(): Promise<boolean> {
    try {
      this.gpu = await this.#client.request("gpu", { checked: this.engine.checked });
      this.gpuReason = this.gpu.reason;
      this.#recallKernels(this.gpu.identity);
    } catch (error) {
      this.gpuReason = `The GPU was not looked at: ${messageOf(error)}.`;
    }
    return this.gpu?.automatic ?? false;
  }

  useGpu(gpu: boolean): void {
    this.engine.gpu = gpu;
    this.replan();
  }

  /** The GPU passed the check, which takes a while: the next visit need not repeat it. */
  rememberCheck(key: string): void {
    const keys = [key, ...this.engine.checked.split("\n").filter((known) => known !== "" && known !== key)];
    this.engine.checked = keys.slice(0, MOST_CHECKS).join("\n");
    remember(CHECKED, this.engine.checked);
  }

  /** Measures the GPU's kernels on the model that is chosen, and trains with the fastest from now on. */
  async tune(): Promise<void> {
    if (this.tuning || !this.recipeValid || !this.facts) return;
    this.tuning = { done: 0, total: 1 };
    this.tuned = "";
    try {
      const { kernels, gain } = await this.#client.request("tune", { values: this.values as Values, vocabSize: this.facts.vocabSize });
      this.engine.kernels = kernels;
      const than = gain > 1.005 ? `${gain.toPrecision(3)} times as fast as the page's own choice` : "the page's own choice is as fast as any";
      this.tuned = `Trains with ${kernelsInWords(kernels)}: measured on this model, ${than}.`;
      this.#rememberKernels({ kernels, tuned: this.tuned });
      this.replan();
    } catch (error) {
      this.tuned = `Not tuned: ${messageOf(error)}.`;
    } finally {
      this.tuning = null;
    }
  }

  cancelTuning(): void {
    void this.#client.request("cancelTuning", null);
  }

  forgetKernels(): void {
    this.engine.kernels = "";
    this.tuned = "";
    this.#rememberKernels(null);
    this.replan();
  }

  #recallKernels(identity: string): void {
    const found = rememberedKernels()[identity];
    if (found) [this.engine.kernels, this.tuned] = [found.kernels, found.tuned];
  }

  #rememberKernels(found: Remembered | null): void {
    const { [this.gpu!.identity]: _old, ...others } = rememberedKernels();
    remember(TUNED, JSON.stringify(found ? { ...others, [this.gpu!.identity]: found } : others));
  }

  get builds(): ReturnType<typeof usableBuilds> {
    return this.features ? usableBuilds(this.features) : [];
  }

  get maxThreads(): number {
    return this.features ? threadLimit(this.features) : 1;
  }

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

  setWidth(width: Width): void {
    this.engine.width = width;
    this.replan();
  }

  /** A resumed run's settings in place of those that happened to be typed. */
  showRecipe({ model, train, run, tokenizer }: RunInfo): void {
    const mlp = model.d_mlp === 4 * (model.d_model as number) ? 0 : model.d_mlp!;
    const values: Values = { ...model, ...train, ...run, d_mlp: mlp, tokenizer: tokenizer.kind };
    const known = this.raw.tokenizer === tokenizer.kind;
    this.raw = { ...this.raw, ...rawOf(values) };
    if (known) this.replan();
    else void this.#inspect();
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

  // -- the text --

  async useDefaultCorpus(): Promise<void> {
    await this.useCorpus(DEFAULT_CORPUS, async () => {
      try {
        const response = await fetch(new URL(`corpus/${DEFAULT_CORPUS}`, this.#siteUrl));
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

  /** Reads a text in place of the one before; a later call takes the place of one that still reads. */
  useCorpus(name: string, read: () => Promise<ArrayBuffer>): Promise<void> {
    return (this.#reading = this.#read(name, read));
  }

  /** The text chosen last, once it has been read; null where there is none. */
  async corpusAtHand(): Promise<Corpus | null> {
    let reading;
    do await (reading = this.#reading);
    while (reading !== this.#reading);
    return this.corpus;
  }

  async #read(name: string, read: () => Promise<ArrayBuffer>): Promise<void> {
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

  // -- the plan --

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
      const plan = await this.#client.request("plan", { values, vocabSize, tokens, engine: { ...this.engine } });
      if (turn !== this.#planTurn) return;
      this.plan = plan;
      this.planError = "";
    } catch (error) {
      if (turn === this.#planTurn) this.planError = messageOf(error);
    }
  }
}

const KERNEL_NOUNS: Record<string, string> = { matmul: "products", attention: "attention" };

/** "matmul=vec4 attention=flash" -> "vec4 products and flash attention". */
function kernelsInWords(kernels: string): string {
  const words = kernels.split(" ").map((word) => word.split("=") as [string, string]);
  return words.map(([family, name]) => `${name} ${KERNEL_NOUNS[family] ?? family}`).join(" and ");
}

interface Remembered {
  kernels: string;
  tuned: string;
}

/** By adapter; nothing where the browser kept nothing that can be read. */
function rememberedKernels(): Record<string, Remembered> {
  try {
    return JSON.parse(recall(TUNED) || "{}") as Record<string, Remembered>;
  } catch {
    return {};
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
