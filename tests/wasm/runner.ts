/**
 * @file Serves one WASM build to pytest: `node tests/wasm/runner.ts BUILD`; or the page's GPU path through
 * Dawn, with BUILD "webgpu". Every session gets an instance of its own with memory sized from its plan, as
 * the page does.
 */
import { fileURLToPath } from "node:url";
import { readCheckpoint, writeCheckpoint } from "../../browser/src/checkpoint/checkpoint.ts";
import type { RunInfo } from "../../browser/src/checkpoint/info.ts";
import {
  BUILDS,
  Core,
  fieldNames,
  memoryFor,
  messageOf,
  Planner,
  runOp,
  Session,
} from "../../browser/src/core/index.ts";
import { momentsIn, weightsIn } from "../../browser/src/worker/weights.ts";
import type { RunSession } from "../../browser/src/worker/session.ts";
import { GpuSession } from "../../browser/src/gpu/session.ts";
import { openDawn } from "./dawn.ts";
import { filesIn, writeFiles } from "./folder.ts";
import { Arrays, floats, session, sessionHandlers, type AnySession, type Arguments, type Handler } from "./sessions.ts";
import { answer, refuse, requests } from "./wire.ts";

type RawValue = string | number | null | { number: string };

/** What calls of this process alone are given. */
interface RunnerArguments extends Arguments {
  params: number[];
  values: RawValue[];
  tokens: number;
  steps: number[];
  folder: string;
  info: RunInfo;
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

async function open({ config, mode, threads, variants }: Arguments, tokens: number): Promise<AnySession> {
  const plan = planner.plan(config, mode, threads, tokens);
  const core = await Core.load({ build: build!, baseUrl, bytes: memoryFor(plan.memory, threads), threads });
  return gpu ? GpuSession.open({ ...(await gpu.open()), core, config, mode, variants }) : new Session(core, config, mode, threads);
}

/** Writes a session as the page's download: its own code, into a folder. */
function save(session: RunSession, folder: string, info: RunInfo): Promise<void> {
  const checkpoint = { info, weights: weightsIn(session), moments: momentsIn(session), metrics: "" };
  return writeFiles(folder, writeCheckpoint(checkpoint, "the page"));
}

/** Reads a folder with the page's code into a session; returns what it says of itself. */
async function load(session: RunSession, folder: string): Promise<RunInfo> {
  const { info, weights, moments } = await readCheckpoint(await filesIn(folder));
  for (const { name, read } of [...weights, ...(moments ?? [])]) session.setTensor(name, await read());
  session.stepNumber = info.step;
  return info;
}

/** For what only the WASM session does. */
const onCpu = (args: Arguments): Session => {
  const found = session(args);
  if (found instanceof Session) return found;
  throw new Error("the GPU's session does not do that");
};

const handlers: Record<string, Handler<RunnerArguments>> = {
  ...sessionHandlers(open),
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
  save: (args) => save(session(args), args.folder, args.info),
  load: (args) => load(session(args), args.folder),
  tiles: (args) => Array.from({ length: session(args).threads }, (_, i) => onCpu(args).threadTiles(i)),
  /** Objects alive on the GPU, by kind. */
  live: async () => (await gpu!.open()).device.live,
  /** Takes the GPU away, as a driver's reset does. */
  lose: async () => (await gpu!.open()).device.destroy(),
};

for await (const { call, args, arrays } of requests()) {
  try {
    const handler = handlers[call];
    if (!handler) throw new Error(`${fileURLToPath(import.meta.url)} knows no call "${call}"`);
    const result = await handler(args as unknown as RunnerArguments, arrays);
    if (result instanceof Arrays) answer(null, result.list);
    else answer(result ?? null);
  } catch (error) {
    refuse(messageOf(error));
  }
}
process.exit(0);
