/**
 * @file Does this GPU compute what the core computes? One step of a small model on both, tensor by tensor:
 * forward, backward and update, through the kernels that training uses.
 */
import { Session, type Core, type CoreConfig } from "../core/index.ts";
import type { OpenDevice } from "./gpu.ts";
import { GpuSession } from "./session.ts";

/** Of a tensor's 2-norm; and, for what is zero in exact arithmetic, of its kind's. As in tests/parity. */
const RELATIVE = 2e-5;
const FLOOR = 1e-7;
const CTX = 17;
const BATCH = 3;

/** No size is a multiple of 4, nor of a tile; between them the two have every kernel and constant. */
const SHAPE = { vocab_size: 41, ctx: CTX, n_layer: 1, n_head: 3, d_model: 42, d_mlp: 50, batch_size: BATCH, grad_accum: 2 };
const RECIPE = {
  steps: 10,
  lr: 1e-2,
  schedule: "cosine",
  min_lr_ratio: 0.1,
  warmup_steps: 2,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-8,
  weight_decay: 0.1,
  grad_clip: 0.5,
  seed: 1337,
};
const CONFIGS: CoreConfig[] = [
  { ...SHAPE, ...RECIPE, dropout: 0.1, activation: "gelu_tanh" },
  { ...SHAPE, ...RECIPE, dropout: 0, activation: "gelu_erf", grad_accum: 1 },
];
/** What a step changes. */
const STATE = /^(transformer\.|[mv]:)/;

export interface CheckResult {
  /** The largest error as a share of its bound, and the tensor that has it. */
  worst: number;
  name: string;
  /** What differs, in words; "" where all is within its bound. */
  problem: string;
}

/** Compares the open device with a WASM instance of at least CHECK_BYTES; `variants`: the kernels, where not the core's choice. */
export async function checkGpu(open: OpenDevice, core: Core, variants = ""): Promise<CheckResult> {
  let result: CheckResult = { worst: 0, name: "", problem: "" };
  for (const config of CONFIGS) {
    const found = await compareSteps(open, core, config, variants);
    if (found.worst > result.worst) result = found;
  }
  return result;
}

/** Bytes of WASM memory that the check takes. */
export const CHECK_BYTES = 64 * 2 ** 20;

async function compareSteps(open: OpenDevice, core: Core, config: CoreConfig, variants: string): Promise<CheckResult> {
  const gpu = await GpuSession.open({ ...open, core, config, mode: "probe", variants });
  const cpu = new Session(core, config, "probe", 1);
  try {
    const corpus = text(400, config.vocab_size as number);
    for (const session of [gpu, cpu]) {
      session.setTokens(corpus);
      session.initWeights();
    }
    for (const name of cpu.names()) {
      if (!STATE.test(name)) continue;
      const values = state(name, cpu.tensor(name));
      for (const session of [gpu, cpu]) session.setTensor(name, values);
    }

    const errors = new Errors();
    const batch = [corpus.slice(0, BATCH * CTX), corpus.slice(1, BATCH * CTX + 1), BATCH, CTX, { train: true, step: 7, micro: 1 }] as const;
    errors.addLoss("the loss", await gpu.lossAndGrads(...batch), cpu.lossAndGrads(...batch));
    for (const name of cpu.names()) errors.add(name, await gpu.tensor(name), cpu.tensor(name));
    const [got, expected] = [await gpu.step(), cpu.step()];
    errors.addLoss("a step's loss", got.loss, expected.loss);
    errors.addLoss("the gradient's norm", got.gradNorm, expected.gradNorm);
    for (const name of cpu.names()) if (STATE.test(name)) errors.add(`${name} after a step`, await gpu.tensor(name), cpu.tensor(name));
    errors.addLoss("the validation loss", await gpu.evaluate("val"), cpu.evaluate("val"));
    return errors.result();
  } finally {
    gpu.close();
    cpu.close();
  }
}

/**
 * Weights, biases and LayerNorms moved off their start; moments as in the middle of a run, since from zero
 * a step is g/|g|: all rounding where g is.
 */
function state(name: string, initial: Float32Array): Float32Array {
  const wave = (i: number): number => Math.sin(0.7 * i + name.length);
  if (name.startsWith("m:")) return initial.map((_, i) => 0.01 * wave(i));
  if (name.startsWith("v:")) return initial.map((_, i) => 0.01 * (1.1 + wave(i)));
  return initial.map((value, i) => value + 0.1 * wave(i));
}

/** Ids with something to learn, the same in every browser. */
function text(length: number, vocabSize: number): Uint32Array {
  let id = 1;
  return Uint32Array.from({ length }, (_, i) => (id = (id * 3 + 7 + (i % 5 === 0 ? i : 0)) % vocabSize));
}

/** Errors by tensor; bounds are known once all norms of a kind are. */
class Errors {
  readonly #tensors: { name: string; kind: string; error: number; norm: number }[] = [];
  readonly #losses: CheckResult[] = [];

  add(name: string, got: Float32Array, expected: Float32Array): void {
    let [error, norm] = [0, 0];
    expected.forEach((value, i) => {
      error += (got[i]! - value) ** 2;
      norm += value ** 2;
    });
    const kind = `${/^\w+:/.exec(name)?.[0] ?? ""}${name.includes("transformer.") ? "parameter" : "activation"}`;
    this.#tensors.push({ name, kind, error: Math.sqrt(error), norm: Math.sqrt(norm) });
  }

  addLoss(name: string, got: number, expected: number): void {
    const off = Math.abs(got - expected) / Math.abs(expected);
    this.#losses.push(judged(name, off, RELATIVE, `${got} where the CPU has ${expected}`));
  }

  result(): CheckResult {
    const norms = new Map<string, number>();
    for (const { kind, norm } of this.#tensors) norms.set(kind, Math.hypot(norms.get(kind) ?? 0, norm));
    const tensors = this.#tensors.map(({ name, kind, error, norm }) => {
      const bound = RELATIVE * norm + FLOOR * norms.get(kind)!;
      return judged(name, error, bound, `off by ${error.toExponential(1)}, allowed ${bound.toExponential(1)}`);
    });
    return [...this.#losses, ...tensors].reduce((a, b) => (b.worst > a.worst ? b : a));
  }
}

/** NaN counts as infinitely far. */
function judged(name: string, error: number, bound: number, figures: string): CheckResult {
  const share = error === 0 ? 0 : error / bound;
  const worst = Number.isNaN(share) ? Infinity : share;
  return { worst, name, problem: worst > 1 ? `${name} is ${figures}` : "" };
}
