/**
 * @file What a run needs of a model, wherever it is computed. The WASM session answers at once, the GPU's
 * later; awaiting does for both.
 */
import type { Sampling, Split, StepMetrics } from "../core/index.ts";

export type Awaitable<T> = T | Promise<T>;

export interface RunSession {
  /** Steps done or under way. */
  stepNumber: number;
  /** Steps that may be asked for before the first of them has answered: 1, or more where that keeps a GPU busy. */
  readonly stepsUnderWay: number;
  /** True for a GPU's: everything in it is gone when the driver resets. */
  readonly canBeLost: boolean;
  readonly threads: number;
  /** What computes, in a word: "wasm-relaxed", or the GPU's name. */
  readonly isa: string;
  readonly memoryBytes: number;

  initWeights(): Awaitable<void>;
  setTokens(tokens: Uint32Array): void;
  names(): string[];
  shape(name: string): number[];
  tensor(name: string): Awaitable<Float32Array<ArrayBuffer>>;
  setTensor(name: string, values: Float32Array): void;

  step(): Awaitable<StepMetrics>;
  evaluateBegin(split: Split, batches: number): void;
  evaluateNext(): Awaitable<boolean>;
  metric(name: string): number;

  generateBegin(prompt: Uint32Array, sampling: Sampling): void;
  generateNext(): Awaitable<number>;
  close(): void;
}
