/**
 * @file Serves one WASM build to pytest: `node tests/wasm/runner.ts BUILD`; or the page's GPU path through
 * Dawn, with BUILD "webgpu". Every session gets an instance of its own with memory sized from its plan, as
 * the page does.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readCheckpoint, writeCheckpoint } from "../../browser/src/checkpoint/checkpoint.ts";
import type { RunInfo } from "../../browser/src/checkpoint/info.ts";
import {
  BUILDS,
  Core,
  type CoreConfig,
  fieldNames,
  memoryFor,
  messageOf,
  type Mode,
  Planner,
  runOp,
  type Sampling,
  Session,
  type Split,
} from "../../browser/src/core/index.ts";
import { readMoments, readWeights } from "../../browser/src/worker/weights.ts";
import type { RunSession } from "../../browser/src/worker/session.ts";
import { GpuSession } from "../../browser/src/gpu/session.ts";
import { openDawn } from "./dawn.ts";
import { answer, refuse, requests } from "./wire.ts";

type RawValue = string | number | null | { number: string };

/** What calls are given, each its own part of it; tests/remote.py sends them. */
interface Arguments {
  session: number;
  config: CoreConfig;
  mode: Mode;
  threads: number;
  variants: string;
  name: string;
  params: number[];
  values: RawValue[];
  tokens: number;
  steps: number[];
  folder: string;
  info: RunInfo;
  batch: number;
  length: number;
  vocab: number;
  train: boolean;
  step: number;
  micro: number;
  split: Split;
  batches: number;
  sampling: Sampling;
  count: number;
}

const MIB = 2 ** 20;
const OP_BYTES = 256 * MIB; // the largest case's arrays, twice

const baseUrl = new URL("../../browser/public/wasm/", import.meta.url).href;
const WEBGPU = "webgpu";
const HOST_OF_GPU = "scalar";
const named = process.argv[2];
const build = BUILDS.find(({ name }) => name === (named === WEBGPU ? HOST_OF_GPU : named));
if (!build) throw new Error(`usage: runner.ts ${[...BUILDS.map(({ name }) => name), WEBGPU].join("|")}`);
const gpu = named === WEBGPU ? await openDawn() : null;

const planner = await Planner.load(baseUrl);
const ops = await Core.load({ build, baseUrl, bytes: OP_BYTES, threads: 1 });
const sessions = new Map<number, Session | GpuSession>();
let opened = 0;

async function open({ config, mode, threads, variants }: Arguments, tokens: Uint32Array | undefined): Promise<number> {
  const plan = planner.plan(config, mode, threads, tokens?.length ?? 0);
  const core = await Core.load({ build: build!, baseUrl, bytes: memoryFor(plan.memory, threads), threads });
  const session = gpu ? await GpuSession.open({ ...(await gpu.open()), core, config, mode, variants }) : new Session(core, config, mode, threads);
  if (tokens) session.setTokens(tokens);
  sessions.set(++opened, session);
  return opened;
}

/** Writes a session as the page's download: its own code, into a folder. */
async function save(session: RunSession, folder: string, info: RunInfo): Promise<void> {
  const checkpoint = { info, weights: await readWeights(session), moments: await readMoments(session), metrics: "" };
  mkdirSync(folder, { recursive: true });
  for (const { name, parts } of writeCheckpoint(checkpoint, "the page")) {
    writeFileSync(`${folder}/${name}`, Buffer.concat(parts));
  }
}

/** Reads a folder with the page's code into a session; returns what it says of itself. */
function load(session: RunSession, folder: string): RunInfo {
  const files = new Map(readdirSync(folder).map((name) => [name, new Uint8Array(readFileSync(`${folder}/${name}`))]));
  const { info, weights, moments } = readCheckpoint(files);
  for (const { name, values } of [...weights, ...(moments ?? [])]) session.setTensor(name, values);
  session.stepNumber = info.step;
  return info;
}

type Handler = (args: Arguments, arrays: Uint8Array[]) => unknown;

const ids = (bytes: Uint8Array | undefined): Uint32Array => new Uint32Array(bytes!.buffer);
const floats = (bytes: Uint8Array | undefined): Float32Array => new Float32Array(bytes!.buffer);
const session = ({ session: id }: Arguments): Session | GpuSession => sessions.get(id)!;
/** For what only the WASM session does. */
const onCpu = (args: Arguments): Session => {
  const found = session(args);
  if (found instanceof Session) return found;
  throw new Error("the GPU's session does not do that");
};

/** A result that is arrays; everything else is JSON. */
class Arrays {
  readonly list: { values: Float32Array; shape: number[] }[];
  constructor(list: { values: Float32Array; shape: number[] }[]) {
    this.list = list;
  }
}

const handlers: Record<string, Handler> = {
  about: () => ({ isa: ops.isa, version: ops.version, hasThreads: ops.abi.tabgpt_has_threads() }),
  fields: () => fieldNames(ops),
  op: ({ name, params, threads }, arrays) => {
    const tensors = arrays.map((bytes) => floats(bytes));
    runOp(ops, name, params, tensors, threads);
    return new Arrays(tensors.map((tensor) => ({ values: tensor, shape: [tensor.length] })));
  },
  /** An export as C sees it: null is NULL, text a pointer, {number: "NaN"} what JSON lacks. */
  raw: ({ name, values }) => {
    const texts = values.filter((value) => typeof value === "string");
    return ops.withArrays(texts, (...pointers) => {
      const passed = values.map((value) => {
        if (typeof value === "string") return pointers.shift()!;
        return Number(value !== null && typeof value === "object" ? value.number : value);
      });
      const result = ops.abi[name as keyof typeof ops.abi](...passed);
      return { result: String(result), error: ops.text(ops.abi.tabgpt_last_error()) };
    });
  },
  memory: ({ config, mode, threads, tokens }) => planner.plan(config, mode, threads, tokens).memory,
  learning_rates: ({ config, steps }) => planner.learningRates(config, steps),
  open: (args, arrays) => open(args, arrays.length > 0 ? ids(arrays[0]) : undefined),
  close: (args) => {
    session(args).close();
    sessions.delete(args.session);
  },
  names: (args) => session(args).names(),
  get: async (args) => {
    const shape = session(args).shape(args.name);
    return new Arrays([{ values: await session(args).tensor(args.name), shape }]);
  },
  set: (args, arrays) => session(args).setTensor(args.name, floats(arrays[0])),
  save: (args) => save(session(args), args.folder, args.info),
  load: (args) => load(session(args), args.folder),
  init_weights: (args) => session(args).initWeights(),
  step: async (args) => {
    const { loss, lr, gradNorm, finite } = await session(args).step();
    return { loss: String(loss), lr, grad_norm: String(gradNorm), finite }; // JSON has no NaN
  },
  step_number: (args) => session(args).stepNumber,
  set_step_number: (args) => {
    session(args).stepNumber = args.step;
  },
  tiles: (args) => Array.from({ length: session(args).threads }, (_, i) => onCpu(args).threadTiles(i)),
  loss: async (args, [x, y]) => String(await session(args).loss(ids(x), ids(y), args.batch, args.length, args)),
  loss_and_grads: async (args, [x, y]) =>
    String(await session(args).lossAndGrads(ids(x), ids(y), args.batch, args.length, args)),
  logits: (args, [x]) => {
    const { batch, length, vocab } = args;
    return new Arrays([{ values: onCpu(args).logits(ids(x), batch, length, vocab), shape: [batch, length, vocab] }]);
  },
  evaluate: async (args) => String(await session(args).evaluate(args.split, args.batches)),
  generate: async (args, [prompt]) => {
    session(args).generateBegin(ids(prompt), args.sampling);
    const tokens: number[] = [];
    while (tokens.length < args.count) tokens.push(await session(args).generateNext());
    return tokens;
  },
  /** Objects alive on the GPU, by kind. */
  live: async () => (await gpu!.open()).device.live,
  /** Takes the GPU away, as a driver's reset does. */
  lose: async () => (await gpu!.open()).device.destroy(),
};

for await (const { call, args, arrays } of requests()) {
  try {
    const handler = handlers[call];
    if (!handler) throw new Error(`${fileURLToPath(import.meta.url)} knows no call "${call}"`);
    const result = await handler(args as unknown as Arguments, arrays);
    if (result instanceof Arrays) answer(null, result.list);
    else answer(result ?? null);
  } catch (error) {
    refuse(messageOf(error));
  }
}
process.exit(0);
