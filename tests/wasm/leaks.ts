/**
 * @file Four lives of a session in one WASM memory, the first to warm up: `node --expose-gc
 * tests/wasm/leaks.ts BUILD` writes what is held after each, in JSON. A life trains, evaluates,
 * samples and reads, is refused some things, and is closed.
 */
import { BUILDS, ConfigHandle, Core, memoryFor, Planner, Session } from "../../browser/src/core/index.ts";
import { DEFAULT_PRESET, modelConfig, presetValues, trainConfig } from "../../browser/src/presets.ts";

const LIVES = 4;
const STEPS = 200;
const VOCAB = 29;
/** For the threads' messages to arrive. */
const SETTLE_MS = 200;

const baseUrl = new URL("../../browser/public/wasm/", import.meta.url).href;
const build = BUILDS.find(({ name }) => name === process.argv[2])!;
const threads = build.threads ? 2 : 1;
const values = {
  ...presetValues(DEFAULT_PRESET),
  ...{ n_layer: 2, n_head: 2, d_model: 16, ctx: 16, batch_size: 4, grad_accum: 2, dropout: 0.1, steps: STEPS },
};
const config = { ...trainConfig(values), ...modelConfig(values, VOCAB) };
const tokens = Uint32Array.from({ length: 3000 }, (_, i) => (i * i + 7 * i) % VOCAB);
const prompt = tokens.slice(0, 4);

const planner = await Planner.load(baseUrl);
const { memory } = planner.plan(config, "train", threads, tokens.length);
const core = await Core.load({ build, baseUrl, bytes: memoryFor(memory, threads), threads });

/** What must fail, and leave nothing behind. */
function refused(session: Session): void {
  const attempts = [
    () => new ConfigHandle(core, { ...config, n_head: 3 }),
    () => new Session(core, { ...config, batch_size: 100_000 }, "train", threads),
    () => session.setTokens(Uint32Array.of(VOCAB)),
    () => session.tensor("no such tensor"),
    () => session.loss(tokens, tokens, 1, tokens.length),
    () => session.generateBegin(new Uint32Array(0), { temperature: 1, topK: 0, topP: 1, seed: 1 }),
  ];
  for (const attempt of attempts) {
    let failed = false;
    try {
      attempt();
    } catch {
      failed = true;
    }
    if (!failed) throw new Error(`not refused: ${attempt}`);
  }
}

function live(): void {
  const session = new Session(core, config, "train", threads);
  session.setTokens(tokens);
  session.initWeights();
  for (let i = 0; i < STEPS; i++) session.step();
  session.evaluate("val");
  session.generateBegin(prompt, { temperature: 1, topK: 5, topP: 0.9, seed: 1 });
  for (let i = 0; i < 40; i++) session.generateNext();
  session.logits(prompt, 1, prompt.length, VOCAB);
  for (const name of session.names()) session.setTensor(name, session.tensor(name));
  refused(session);
  session.close();
}

const held: unknown[] = [];
for (let i = 0; i < LIVES; i++) {
  live();
  planner.plan(config, "train", threads, tokens.length);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  gc!();
  const resources = process.getActiveResourcesInfo().sort();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  held.push({ heapBytes: core.heapBytes, memoryBytes: core.memoryBytes, resources, heapUsed, arrayBuffers });
}
console.log(JSON.stringify(held));
process.exit(0);
