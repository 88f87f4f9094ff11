/**
 * @file A worker with sessions of the core: training steps and generated tokens, timed in the tab.
 * bench/tab_session.py asks it.
 */
import { BUILDS, Core, type CoreConfig, memoryFor, type Mode, Planner, Session } from "../../browser/src/core/index.ts";
import { answer, clockQuantum, fromBase64 } from "./answer.ts";

/** What jobs are given, each its own part of it. */
interface Job {
  do: keyof typeof handlers;
  id: number;
  build: string;
  threads: number;
  config: CoreConfig;
  mode: Mode;
  /** Base64 of uint32; "" for none. */
  tokens: string;
  count: number;
  /** Whether one more step, not timed, goes before. */
  wake: boolean;
  prompt: number[];
}

const GREEDY = { temperature: 0, topK: 0, topP: 1, seed: 0 };

const baseUrl = new URL("wasm/", self.location.href).href;
const sessions: Session[] = [];

function sessionOf({ id }: Job): Session {
  const session = sessions[id];
  if (!session) throw new Error(`there is no session ${id}`);
  return session;
}

/** An instance of its own, its memory sized from the plan as the page does. */
async function open({ build: name, threads, config, mode, tokens }: Job) {
  const build = BUILDS.find((candidate) => candidate.name === name);
  if (!build) throw new Error(`no build is called "${name}"`);
  const ids = new Uint32Array(fromBase64(tokens));
  const planner = await Planner.load(baseUrl);
  const plan = planner.plan(config, mode, threads, ids.length);
  const core = await Core.load({ build, baseUrl, bytes: memoryFor(plan.memory, threads), threads });
  const session = new Session(core, config, mode, threads);
  if (ids.length > 0) session.setTokens(ids);
  session.initWeights();
  return { id: sessions.push(session) - 1, isa: core.isa, parameters: plan.parameters };
}

/** `count` training steps: their seconds together, and each loss. */
function steps(job: Job) {
  const session = sessionOf(job);
  const losses: number[] = [];
  if (job.wake) session.step();
  const before = performance.now();
  for (let step = 0; step < job.count; step++) losses.push(session.step().loss);
  return { seconds: (performance.now() - before) / 1000, losses };
}

/** Greedy tokens after a prompt: the seconds of all but the first, which takes in the prompt. */
function generate(job: Job) {
  const session = sessionOf(job);
  session.generateBegin(Uint32Array.from(job.prompt), GREEDY);
  const ids = [session.generateNext()];
  const before = performance.now();
  for (let token = 0; token < job.count; token++) ids.push(session.generateNext());
  return { seconds: (performance.now() - before) / 1000, ids };
}

/** Of each position of `prompt`: logits of all ids, as rows. */
function logits(job: Job): number[] {
  const vocabSize = Number(job.config["vocab_size"]);
  return Array.from(sessionOf(job).logits(Uint32Array.from(job.prompt), 1, job.prompt.length, vocabSize));
}

const handlers = {
  open,
  steps,
  generate,
  logits,
  quantum: clockQuantum,
  close: (job: Job) => {
    sessionOf(job).close();
    delete sessions[job.id];
  },
};

answer<Job>((job) => handlers[job.do](job));
