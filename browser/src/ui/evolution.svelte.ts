/**
 * @file The evolution page's state: the preset, and what this machine has measured so far.
 */
import { ALL, type EvolutionEvent, type EvolutionRequest } from "../evolution/protocol.ts";
import { BASELINE, LOSS_BOUND, median, oracleLosses, pairRatio, PRESETS } from "../evolution/stages.ts";
import { recall } from "./memory.ts";
import { CHECKED } from "./choice.svelte.ts";

/** A stage on this machine. */
export interface Here {
  obstacle: string;
  note: string;
  difference: number | null;
  passed: boolean | null;
  seconds: number[];
  failure: string;
}

export class Evolution {
  readonly #siteUrl: string;
  #worker: Worker | null = null;

  preset = $state(PRESETS[0]!);
  phase = $state<"idle" | "running" | "done" | "stopped" | "failed">("idle");
  doing = $state("");
  failure = $state("");
  here = $state<Record<string, Here>>({});
  #samples = 0;

  constructor(siteUrl: string) {
    this.#siteUrl = siteUrl;
  }

  choose(preset: string): void {
    this.stop();
    this.preset = preset;
    this.here = {};
    this.phase = "idle";
  }

  run(): void {
    this.#worker?.terminate();
    [this.here, this.phase, this.failure, this.doing, this.#samples] = [{}, "running", "", "Loading", 0];
    const worker = new Worker(new URL("../evolution/worker.ts", import.meta.url), { type: "module", name: "tabgpt-evolution" });
    worker.onmessage = ({ data }: MessageEvent<EvolutionEvent>) => this.#receive(data);
    worker.onerror = ({ message }) => this.#fail(message || "its worker could not be loaded");
    const request: EvolutionRequest = {
      siteUrl: this.#siteUrl,
      preset: this.preset,
      losses: oracleLosses(this.preset),
      bound: LOSS_BOUND,
      checked: recall(CHECKED),
    };
    worker.postMessage(request);
    this.#worker = worker;
  }

  stop(): void {
    this.#worker?.terminate();
    this.#worker = null;
    if (this.phase === "running") this.phase = "stopped";
  }

  /** Median milliseconds a step here; null before there is one. */
  ms(stage: string): number | null {
    const seconds = this.here[stage]?.seconds ?? [];
    return seconds.length > 0 ? 1000 * median(seconds) : null;
  }

  /** Speed here as a multiple of the baseline's here. */
  ratio(stage: string): number | null {
    return pairRatio(this.here[stage]?.seconds ?? [], this.here[BASELINE]?.seconds ?? []);
  }

  #fail(message: string): void {
    [this.phase, this.failure] = ["failed", message];
    this.#worker?.terminate();
  }

  #receive(event: EvolutionEvent): void {
    switch (event.event) {
      case "plan":
        for (const { name, obstacle, note } of event.stages) {
          this.here[name] = { obstacle, note, difference: null, passed: null, seconds: [], failure: "" };
        }
        break;
      case "opening":
        this.doing = `First losses of ${event.stage}`;
        break;
      case "verdict":
        Object.assign(this.here[event.stage]!, { difference: event.difference, passed: event.passed });
        this.doing = "Warming up";
        break;
      case "sample": {
        this.here[event.stage]!.seconds.push(event.seconds);
        this.doing = `${++this.#samples} samples taken`;
        break;
      }
      case "failed":
        if (event.stage === ALL) this.#fail(event.message);
        else this.here[event.stage]!.failure = event.message;
        break;
      case "done":
        this.phase = "done";
        break;
    }
  }
}
