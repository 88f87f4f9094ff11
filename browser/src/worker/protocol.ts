/**
 * @file All that page and worker say to each other.
 *
 * The page sends commands; each is answered once, under its id, by "done" or "failed". What happens by
 * itself (a step, an evaluation, an autosave) comes as events. The worker holds one session at a time.
 */
import type { MemoryPlan, Sampling, Width } from "../core/index.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import type { Kept } from "../checkpoint/store.ts";
import type { Corpus } from "../corpus.ts";
import type { Values } from "../presets.ts";

export interface Engine {
  /** Name of a WASM build, for when it is the CPU's turn. */
  build: string;
  /** Whether a 32-bit one or its 64-bit twin runs. */
  width: Width;
  threads: number;
  /** On the GPU instead. */
  gpu: boolean;
  /** Its kernels, "matmul=vec4 attention=flash", where they are not the core's own choice. */
  kernels: string;
  /** The checks that the page knows the GPU to have passed, a line each; "" is none. */
  checked: string;
}

export interface GpuVerdict {
  /** It may be chosen. */
  usable: boolean;
  /** It is chosen where nobody chooses. */
  automatic: boolean;
  /** One sentence for the page. */
  reason: string;
  /** What to remember of a check that was passed; "" where there was none. */
  checked: string;
  /** The adapter and the page's shaders: what tuning finds is kept under it. "" without a GPU. */
  identity: string;
}

/** The kernels that train one model fastest on this GPU, and how much faster than the core's own they are. */
export interface TunedKernels {
  kernels: string;
  gain: number;
}

export interface SampleSettings extends Sampling {
  prompt: string;
  maxNewTokens: number;
  /** Generation ends where the text contains this; "" never does. */
  stop: string;
}

export interface CorpusFacts {
  tokens: number;
  vocabSize: number;
  /** The character vocabulary, "" for bytes. */
  vocab: string;
}

export interface PlanFacts {
  parameters: number;
  memory: MemoryPlan;
  /** What the browser will be asked for, in bytes: WASM memory, or buffers on the GPU. */
  hostBytes: number;
  /** Learning rate at `curveSteps` evenly spread steps, first and last included. */
  curve: number[];
  /** Width of the WASM build that would run it. */
  bits: 32 | 64;
  /** Why it cannot be had here, before anything is allocated; "" where it can. */
  problem: string;
}

/** The saved run's card. */
export interface SavedRun {
  info: RunInfo;
  bytes: number;
  /** Moments and recipe are there: it can go on. */
  resumable: boolean;
  /** The corpus that it was trained on is at hand. */
  hasCorpus: boolean;
  /** Newest validation loss, null where there was none. */
  valLoss: number | null;
  savedAt: number;
}

export interface Upload {
  name: string;
  file: Blob;
}

export interface Opened {
  saved: SavedRun | null;
  /** False: this browser has no files for the page, so a run lasts as long as the tab. */
  durable: boolean;
}

export interface Commands {
  /** Names the folder of the WASM builds. Must come first. `kept` is what the last worker had in memory. */
  open: { request: { wasmUrl: string; kept: Kept | null }; reply: Opened };
  corpus: { request: { corpus: Corpus; tokenizer: string }; reply: CorpusFacts };
  /** Whether the GPU can be trained on; checks it, unless it passed the check that the page remembers. */
  gpu: { request: { checked: string }; reply: GpuVerdict };
  /** Measures the kernels at the sizes of this model and checks the fastest; "cancelTuning" ends it early. */
  tune: { request: { values: Values; vocabSize: number }; reply: TunedKernels };
  cancelTuning: { request: null; reply: null };
  plan: { request: { values: Values; vocabSize: number; tokens: number; engine: Engine }; reply: PlanFacts };
  start: { request: { values: Values; corpus: Corpus; engine: Engine; live: SampleSettings }; reply: null };
  /** Opens the saved run and trains on. `corpus` where the store has none that fits. */
  continue: { request: { engine: Engine; corpus: Corpus | null; live: SampleSettings }; reply: null };
  pause: { request: null; reply: null };
  resume: { request: null; reply: null };
  /** One step while paused. */
  step: { request: null; reply: null };
  /** Ends training after the step in progress, and saves. */
  stop: { request: null; reply: null };
  sample: { request: { settings: SampleSettings; engine: Engine }; reply: null };
  cancelSample: { request: null; reply: null };
  save: { request: null; reply: SavedRun | null };
  /** One zip: of the run as it stands now, or of the saved one, saved first where there is a run. */
  download: { request: { which: "run" | "saved" }; reply: { name: string; blob: Blob } };
  /** Replaces the saved run by uploaded files, after checking every tensor. */
  load: { request: { files: Upload[]; engine: Engine }; reply: SavedRun };
  delete: { request: null; reply: null };
}

export type CommandName = keyof Commands;
export type Request<K extends CommandName> = Commands[K]["request"];
export type Reply<K extends CommandName> = Commands[K]["reply"];

export type ToWorker = { [K in CommandName]: { id: number; command: K; request: Request<K> } }[CommandName];

/** What the run is doing. "idle": no run; "stopped" may be continued, "finished" has done its steps. */
export type RunState = "idle" | "training" | "evaluating" | "sampling" | "paused" | "stopped" | "finished" | "failed";

export interface MetricPoint {
  step: number;
  loss: number;
  lr: number;
  gradNorm: number;
  tokensPerSecond: number;
}

export interface EvalPoint {
  step: number;
  valLoss: number;
  /** Over the whole split, not seeded batches. */
  whole: boolean;
}

export type RunEvent =
  | { event: "ready"; engine: Engine; isa: string; memoryBytes: number; info: RunInfo; totalSteps: number }
  /** The GPU compiles its kernels. */
  | { event: "preparing"; done: number; total: number }
  /** Kernels are measured; `done` of `total` sizes are. */
  | { event: "tuning"; done: number; total: number }
  /** The GPU passed the check; to be remembered. */
  | { event: "checked"; key: string }
  | { event: "history"; points: MetricPoint[]; evals: EvalPoint[] }
  | { event: "state"; state: RunState; step: number }
  | { event: "metrics"; points: MetricPoint[] }
  | { event: "evaluating"; step: number }
  | { event: "evaluated"; point: EvalPoint }
  | { event: "sample"; live: boolean; step: number; prompt: string; text: string; done: boolean }
  | { event: "saved"; saved: SavedRun }
  /** The newest save failed; training goes on. */
  | { event: "unsaved"; message: string }
  /** The worker is gone and its run with it, but for what was saved. From the page's end. */
  | { event: "lost"; message: string }
  | { event: "notice"; message: string }
  | { event: "error"; message: string };

export type FromWorker =
  | { type: "done"; id: number; reply: unknown }
  | { type: "failed"; id: number; message: string }
  | { type: "kept"; kept: Kept }
  | ({ type: "event" } & RunEvent);
