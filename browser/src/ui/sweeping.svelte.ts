/**
 * @file The bench page's state: the GPU that was found, the sweep in its worker, and the rows so far.
 */
import { GROUPS, STEP_GROUP } from "../sweep/definition.ts";
import type { AdapterFacts, ClockFacts, Progress, Row, SweepEvent, ToSweep } from "../sweep/protocol.ts";
import { recordOf, type Host, type Sweep } from "../sweep/record.ts";
import { recall, remember } from "./memory.ts";

const PEAK = "tabgpt-peak-tflops";
/** Sizes that may be chosen as the largest; the last is every case. */
export const SIZES = [128, 256, 512, 1024, 2048, 4096] as const;
const LARGEST = SIZES.at(-1)!;

export type Phase = "looking" | "nothing" | "ready" | "running" | "stopping" | "done" | "stopped" | "failed";

export class Sweeping {
  readonly #siteUrl: string;
  #worker: Worker | null = null;

  phase = $state<Phase>("looking");
  adapter = $state.raw<AdapterFacts | null>(null);
  /** Why there is nothing to measure, or what ended the sweep. */
  problem = $state("");
  rows = $state.raw<readonly Row[]>([]);
  clock = $state.raw<ClockFacts | null>(null);
  progress = $state.raw<Progress>({ what: "", kind: "kernel", done: 0, total: 1 });

  groups = $state<Record<string, boolean>>(Object.fromEntries(Object.keys(GROUPS).map((group) => [group, true])));
  most = $state<number>(LARGEST);
  experimental = $state(true);
  peakText = $state(recall(PEAK));

  busy = $derived(this.phase === "running" || this.phase === "stopping");
  canStart = $derived(this.adapter !== null && !this.busy && Object.values(this.groups).some((chosen) => chosen));
  /** Floating-point operations a second that the visitor says the GPU can do; null where nothing usable is typed. */
  peak = $derived.by(() => {
    const tera = Number(this.peakText.trim().replace(",", "."));
    return tera > 0 && Number.isFinite(tera) ? tera * 1e12 : null;
  });
  peakProblem = $derived(this.peakText.trim() !== "" && this.peak === null ? `"${this.peakText}" is not a number above 0.` : "");

  constructor(siteUrl: string) {
    this.#siteUrl = siteUrl;
    this.#post({ command: "look" });
  }

  start(): void {
    if (!this.canStart) return;
    [this.rows, this.clock, this.problem, this.phase] = [[], null, "", "running"];
    this.progress = { what: "", kind: "kernel", done: 0, total: 1 };
    const groups = Object.keys(this.groups).filter((group) => this.groups[group]);
    const selection = { groups, most: this.most, experimental: this.experimental };
    this.#post({ command: "start", siteUrl: this.#siteUrl, selection });
  }

  /** After the call in progress. */
  stop(): void {
    this.phase = "stopping";
    this.#post({ command: "stop" });
  }

  setPeak(text: string): void {
    this.peakText = text;
    remember(PEAK, text);
  }

  /** Of a sweep that came to an end, by itself or by the person. */
  record(): object {
    const sweep: Sweep = { adapter: this.adapter!, clock: this.clock!, rows: this.rows, stopped: this.phase === "stopped" };
    return recordOf(sweep, hostFacts());
  }

  #post(message: ToSweep): void {
    this.#worker ??= this.#spawn();
    this.#worker.postMessage(message);
  }

  #spawn(): Worker {
    const worker = new Worker(new URL("../sweep/worker.ts", import.meta.url), { type: "module", name: "tabgpt-sweep" });
    worker.onmessage = ({ data }: MessageEvent<SweepEvent>) => this.#receive(data);
    worker.onerror = ({ message }) => this.#receive({ event: "failed", message: message || "The page's worker could not be loaded." });
    return worker;
  }

  #receive(event: SweepEvent): void {
    switch (event.event) {
      case "adapter":
        [this.adapter, this.phase] = [event.adapter, "ready"];
        break;
      case "progress":
        this.progress = event;
        break;
      case "rows":
        this.rows = [...this.rows, ...event.rows];
        break;
      case "done":
        this.clock = event.clock;
        this.progress = { ...this.progress, done: this.progress.total };
        this.phase = event.stopped ? "stopped" : "done";
        break;
      case "failed":
        this.problem = event.message;
        this.phase = this.adapter ? "failed" : "nothing";
        // A new one asks for a new device.
        this.#worker?.terminate();
        this.#worker = null;
        break;
    }
  }
}

export function groupLabel(group: string): string {
  return (GROUPS as Record<string, string>)[group] ?? group;
}

export const GROUP_NAMES = [...Object.keys(GROUPS).filter((group) => group !== STEP_GROUP), STEP_GROUP];

function hostFacts(): Host {
  return {
    browser: navigator.userAgent,
    cores: navigator.hardwareConcurrency,
    system: /\((.*?)\)/.exec(navigator.userAgent)?.[1] ?? "unknown",
    commit: __COMMIT__,
    date: new Date(),
  };
}
