/**
 * @file One model from its plan to its end, in Node or in a tab: refused where it does not fit, opened,
 * trained, saved through a stream, freed, loaded again, trained on. bench/behemoth.py asks for it phase by
 * phase and reads the process's peak memory between them.
 */
import { BUILDS, Core, detectFeatures, fit, maximumBytes, memoryFor, messageOf, Planner, Session, type CoreConfig } from "../../browser/src/core/index.ts";
import { readCheckpoint, writeCheckpoint, type Files } from "../../browser/src/checkpoint/checkpoint.ts";
import type { RunInfo } from "../../browser/src/checkpoint/info.ts";
import type { FileSource } from "../../browser/src/checkpoint/safetensors.ts";
import { momentsIn, setMoments, setWeights, weightsIn } from "../../browser/src/worker/weights.ts";

/** Where the checkpoint goes. */
export interface Disk {
  write(files: FileSource[]): Promise<void>;
  read(): Promise<Files>;
  clear(): Promise<void>;
}

export interface Job {
  build: string;
  threads: number;
  config: CoreConfig;
  tokens: number[];
  info: RunInfo;
  steps: number;
}

const now = (): number => performance.now() / 1000;

export class Large {
  readonly #wasmUrl: string;
  readonly #disk: Disk;
  #job: Job | null = null;
  #core: Core | null = null;
  #session: Session | null = null;

  constructor(wasmUrl: string, disk: Disk) {
    this.#wasmUrl = wasmUrl;
    this.#disk = disk;
  }

  /** What the page's pre-flight says of a 32-bit build, and what comes of opening the model in one all the same. */
  async refuse({ build: name, threads, config, tokens }: Job) {
    const kind = BUILDS.find((build) => build.name === name.replace(/-64$/, ""))!;
    const planner = await Planner.load(this.#wasmUrl);
    const { parameters, memory } = planner.plan(config, "train", threads, tokens.length);
    const { problem } = fit(kind, "32", memory, threads, await detectFeatures());
    const bytes = memoryFor(memory, threads);
    const tried = async (size: number): Promise<string> => {
      try {
        const core = await Core.load({ build: kind, baseUrl: this.#wasmUrl, bytes: size, threads });
        new Session(core, config, "train", threads);
        return "";
      } catch (error) {
        return messageOf(error);
      }
    };
    return { parameters, planBytes: memory.total, bytes, refused: problem, forced: [await tried(bytes), await tried(maximumBytes(32))] };
  }

  /** The chosen build by the plan's need alone; seconds to a model with its starting weights. */
  async open(job: Job) {
    const planner = await Planner.load(this.#wasmUrl);
    const { memory } = planner.plan(job.config, "train", job.threads, job.tokens.length);
    const kind = BUILDS.find((candidate) => candidate.name === job.build.replace(/-64$/, ""))!;
    const { build, problem } = fit(kind, "auto", memory, job.threads, await detectFeatures());
    if (problem) throw new Error(problem);
    const begun = now();
    this.#core = await Core.load({ build, baseUrl: this.#wasmUrl, bytes: memoryFor(memory, job.threads), threads: job.threads });
    this.#job = job;
    this.#session = this.#allocate();
    const allocated = now();
    this.#session.initWeights();
    const { memoryBytes, heapBytes } = this.#core;
    return { build: build.name, allocateSeconds: allocated - begun, initSeconds: now() - allocated, memoryBytes, heapBytes };
  }

  #allocate(): Session {
    const { config, threads, tokens } = this.#job!;
    const session = new Session(this.#core!, config, "train", threads);
    session.setTokens(Uint32Array.from(tokens));
    return session;
  }

  /** Each step's loss and seconds. */
  train({ steps }: Job) {
    return Array.from({ length: steps }, () => {
      const begun = now();
      const { loss, gradNorm, finite } = this.#session!.step();
      return { loss, gradNorm, finite, seconds: now() - begun };
    });
  }

  /** The page's checkpoint of it, moments included. */
  async save({ info }: Job) {
    const session = this.#session!;
    const begun = now();
    const checkpoint = { info: { ...info, step: session.stepNumber }, weights: weightsIn(session), moments: momentsIn(session), metrics: "" };
    const files = writeCheckpoint(checkpoint, "the page");
    await this.#disk.write(files);
    return { seconds: now() - begun, bytes: files.reduce((sum, { size }) => sum + size, 0) };
  }

  /** Frees the model, opens another in the same memory, and fills it from the files. */
  async load() {
    this.#session!.close();
    const freed = this.#core!.heapBytes;
    const begun = now();
    this.#session = this.#allocate();
    const { info, weights, moments } = await readCheckpoint(await this.#disk.read());
    await setWeights(this.#session, weights);
    await setMoments(this.#session, moments!);
    this.#session.stepNumber = info.step;
    return { seconds: now() - begun, heapBytesBetween: freed };
  }

  /** Bytes that the core still holds when all is closed. */
  async close() {
    this.#session!.close();
    await this.#disk.clear();
    return { heapBytes: this.#core!.heapBytes };
  }
}
