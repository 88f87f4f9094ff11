/**
 * @file Serves one WASM build to pytest: `node tests/wasm/runner.ts BUILD`. Every session gets an
 * instance of its own with memory sized from its plan, as the page does.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readCheckpoint, type RunInfo, writeCheckpoint } from "../../browser/src/checkpoint/checkpoint.ts";
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
import { answer, refuse, requests } from "./wire.ts";

type RawValue = string | number | null | { number: string };

/** What calls are given, each its own part of it; tests/remote.py sends them. */
interface Arguments {
  session: number;
  config: CoreConfig;
  mode: Mode;
  threads: number;
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
const build = BUILDS.find(({ name }) => name === process.argv[2]);
if (!build) throw new Error(`usage: runner.ts ${BUILDS.map(({ name }) => name).join("|")}`);

const planner = await Planner.load(baseUrl);
const ops = await Core.load({ build, baseUrl, bytes: OP_BYTES, threads: 1 });
const sessions = new Map<number, Session>();
let opened = 0;

async function open({ config, mode, threads }: Arguments, tokens: Uint32Array | undefined): Promise<number> {
  const plan = planner.plan(config, mode, threads, tokens?.length ?? 0);
  const core = await Core.load({ build: build!, baseUrl, bytes: memoryFor(plan.memory, threads), threads });
  const session = new Session(core, config, mode, threads);
  if (tokens) session.setTokens(tokens);
  sessions.set(++opened, session);
  return opened;
}

/** Writes a session as the page's download: its own code, into a folder. */
function save(session: Session, folder: string, info: RunInfo): void {
  const named = (prefix: string) =>
    session
      .names()
      .filter((name) => name.startsWith(prefix))
      .map((name) => ({ name, shape: session.shape(name), values: session.tensor(name) }));
  const moments = [...named("m:"), ...named("v:")];
  const checkpoint = { info, weights: named("transformer."), moments, metrics: "" };
  mkdirSync(folder, { recursive: true });
  for (const { name, parts } of writeCheckpoint(checkpoint, "the page")) {
    writeFileSync(`${folder}/${name}`, Buffer.concat(parts));
  }
}

/** Reads a folder with the page's code into a session; returns what it says of itself. */
function load(session: Session, folder: string): RunInfo {
  const files = new Map(readdirSync(folder).map((name) => [name, new Uint8Array(readFileSync(`${folder}/${name}`))]));
  const { info, weights, moments } = readCheckpoint(files);
  for (const { name, values } of [...weights, ...(moments ?? [])]) session.setTensor(name, values);
  session.stepNumber = info.step;
  return info;
}

type Handler = (args: Arguments, arrays: Uint8Array[]) => unknown;

const ids = (bytes: Uint8Array | undefined): Uint32Array => new Uint32Array(bytes!.buffer);
const floats = (bytes: Uint8Array | undefined): Float32Array => new Float32Array(bytes!.buffer);
const session = ({ session: id }: Arguments): Session => sessions.get(id)!;

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
  get: (args) => {
    const shape = session(args).shape(args.name);
    return new Arrays([{ values: session(args).tensor(args.name), shape }]);
  },
  set: (args, arrays) => session(args).setTensor(args.name, floats(arrays[0])),
  save: (args) => save(session(args), args.folder, args.info),
  load: (args) => load(session(args), args.folder),
  init_weights: (args) => session(args).initWeights(),
  step: (args) => {
    const { loss, lr, gradNorm, finite } = session(args).step();
    return { loss: String(loss), lr, grad_norm: String(gradNorm), finite }; // JSON has no NaN
  },
  step_number: (args) => session(args).stepNumber,
  set_step_number: (args) => {
    session(args).stepNumber = args.step;
  },
  tiles: (args) => Array.from({ length: session(args).threads }, (_, i) => session(args).threadTiles(i)),
  loss: (args, [x, y]) => String(session(args).loss(ids(x), ids(y), args.batch, args.length, args)),
  loss_and_grads: (args, [x, y]) =>
    String(session(args).lossAndGrads(ids(x), ids(y), args.batch, args.length, args)),
  logits: (args, [x]) => {
    const { batch, length, vocab } = args;
    return new Arrays([{ values: session(args).logits(ids(x), batch, length, vocab), shape: [batch, length, vocab] }]);
  },
  evaluate: (args) => String(session(args).evaluate(args.split, args.batches)),
  generate: (args, [prompt]) => {
    session(args).generateBegin(ids(prompt), args.sampling);
    return Array.from({ length: args.count }, () => session(args).generateNext());
  },
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
