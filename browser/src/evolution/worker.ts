/**
 * @file The evolution page's worker: opens every stage that this browser runs, and times them in turns.
 */
import type { RunInfo } from "../checkpoint/info.ts";
import { BUILDS, detectFeatures, messageOf, obstacle, TabgptError, threadLimit, type Features } from "../core/index.ts";
import { corpusFromBytes, DEFAULT_CORPUS, tokenize } from "../corpus.ts";
import { modelConfig, presetValues, trainConfig } from "../presets.ts";
import { Engines } from "../worker/engine.ts";
import type { Engine } from "../worker/protocol.ts";
import type { RunSession } from "../worker/session.ts";
import { firstDifference, Timed } from "./measure.ts";
import { ALL, type EvolutionEvent, type EvolutionRequest } from "./protocol.ts";
import { STAGES, type Stage } from "./stages.ts";

const ROUNDS = 5;
const send = (event: EvolutionEvent): void => globalThis.postMessage(event);

interface Offer {
  stage: Stage;
  engine: Engine;
  /** Why not here; "" where it runs. */
  obstacle: string;
  note: string;
}

/** The tab's stages with what each would run on. */
async function offers(engines: Engines, features: Features, checked: string): Promise<Offer[]> {
  const found: Offer[] = [];
  for (const stage of STAGES) {
    if (stage.host === "tab") {
      const build = BUILDS.find(({ name }) => name === stage.build)!;
      const threads = Math.min(stage.threads ?? 1, threadLimit(features));
      const lacks = threads < (stage.threads ?? 1) ? "this machine has one core" : obstacle(build, features);
      const width = build.address === 64 ? "64" : "32";
      const engine: Engine = { build: build.name, width, threads, gpu: false, kernels: "", checked: "" };
      found.push({ stage, engine, obstacle: lacks, note: "" });
    } else if (stage.host === "gpu") {
      const { usable, reason } = await engines.gpu(checked);
      const engine: Engine = { build: BUILDS[0]!.name, width: "auto", threads: 1, gpu: true, kernels: "", checked };
      found.push({ stage, engine, obstacle: usable ? "" : reason, note: usable ? reason : "" });
    }
  }
  return found;
}

/** The recipe that bench/evolution.py measures: the preset at a constant rate. */
async function runOf(siteUrl: string, preset: string): Promise<{ info: RunInfo; tokens: Uint32Array }> {
  const response = await fetch(new URL(`corpus/${DEFAULT_CORPUS}`, siteUrl));
  if (!response.ok) throw new TabgptError(`the text ${DEFAULT_CORPUS} could not be fetched: the server answered ${response.status}`);
  const corpus = await corpusFromBytes(DEFAULT_CORPUS, new Uint8Array(await response.arrayBuffer()));
  const { tokenizer, tokens } = tokenize(corpus, "char");
  const values = { ...presetValues(preset), schedule: "constant", warmup_steps: 0 };
  const model = modelConfig(values, tokenizer.vocabSize);
  return { info: { model, train: trainConfig(values), tokenizer: tokenizer.spec, run: null, corpus: null, step: 0 }, tokens };
}

async function measure({ siteUrl, preset, losses, bound, checked }: EvolutionRequest): Promise<void> {
  const engines = await Engines.load(new URL("wasm/", siteUrl).href, () => undefined);
  const offered = await offers(engines, await detectFeatures(), checked);
  send({
    event: "plan",
    rounds: ROUNDS,
    stages: offered.map(({ stage, obstacle, note }) => ({ name: stage.name, obstacle, note })),
  });
  const { info, tokens } = await runOf(siteUrl, preset);
  const sessions: RunSession[] = [];
  const timed = new Map<string, Timed>();
  try {
    for (const { stage, engine } of offered.filter((offer) => offer.obstacle === "")) {
      send({ event: "opening", stage: stage.name });
      try {
        const session = await engines.open(info, "train", tokens.length, engine);
        sessions.push(session);
        session.setTokens(tokens);
        await session.initWeights();
        const difference = await firstDifference(session, losses);
        send({ event: "verdict", stage: stage.name, difference, passed: difference <= bound });
        // The speed of a wrong program is not shown.
        if (difference <= bound) timed.set(stage.name, new Timed(session));
      } catch (error) {
        send({ event: "failed", stage: stage.name, message: messageOf(error) });
      }
    }
    for (const each of timed.values()) await each.warmUp();
    for (let round = 0; round < ROUNDS; round++) {
      const turns = [...timed];
      if (round % 2 === 1) turns.reverse();
      for (const [name, each] of turns) send({ event: "sample", stage: name, seconds: await each.sample() });
    }
  } finally {
    for (const session of sessions) session.close();
  }
  send({ event: "done" });
}

globalThis.onmessage = ({ data }: MessageEvent<EvolutionRequest>) => {
  measure(data).catch((error: unknown) => send({ event: "failed", stage: ALL, message: messageOf(error) }));
};
