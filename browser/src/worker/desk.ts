/**
 * @file The worker's handlers, one a command: they hold what the worker holds (corpus, session, run).
 */
import { messageOf, NotFiniteError, TabgptError } from "../core/index.ts";
import { inMemory, type Checkpoint } from "../checkpoint/checkpoint.ts";
import type { RunInfo } from "../checkpoint/info.ts";
import type { Kept } from "../checkpoint/store.ts";
import { DeviceLostError } from "../gpu/errors.ts";
import { corpusFromBytes, corpusProblem, tokenize, textOf, type Corpus } from "../corpus.ts";
import { modelConfig, runConfig, trainConfig, type Values } from "../presets.ts";
import { tokenizerFrom, type Tokenizer } from "../tokenizer.ts";
import { Archive, uploadedCheckpoint } from "./archive.ts";
import { Engines } from "./engine.ts";
import { evalPoints, fromJsonl, toJsonl, type MetricLine } from "./metrics.ts";
import type { CommandName, Engine, Reply, Request, RunEvent, SampleSettings, SavedRun } from "./protocol.ts";
import { generate } from "./sampler.ts";
import type { Awaitable, RunSession } from "./session.ts";
import { Trainer } from "./trainer.ts";
import { Turns } from "./turns.ts";
import { momentsIn, setMoments, setWeights, weightsIn } from "./weights.ts";

const PRODUCER = "tabgpt (browser)";

type Handlers = { [K in CommandName]: (request: Request<K>) => Promise<Reply<K>> };

/** Brings a session to the run's last state in memory. */
type Fill = (session: RunSession) => Awaitable<void>;

interface Tokenized {
  key: string;
  tokenizer: Tokenizer;
  tokens: Uint32Array;
}

export class Desk implements Handlers {
  readonly #emit: (event: RunEvent) => void;
  readonly #keep: (kept: Kept) => void;
  readonly #turns = new Turns();
  #engines: Engines | null = null;
  #archive: Archive | null = null;
  #tokenized: Tokenized | null = null;
  #session: RunSession | null = null;
  #fill: Fill = () => undefined;
  #tokenizer: Tokenizer | null = null;
  #trainer: Trainer | null = null;
  #corpus: Corpus | null = null;
  #sampling = 0;

  constructor({ emit, keep }: { emit: (event: RunEvent) => void; keep: (kept: Kept) => void }) {
    this.#emit = emit;
    this.#keep = keep;
  }

  handle<K extends CommandName>(command: K, request: Request<K>): Promise<Reply<K>> {
    const handler = this[command] as (request: Request<K>) => Promise<Reply<K>>;
    return handler.call(this, request);
  }

  async open({ wasmUrl, kept }: Request<"open">): Promise<Reply<"open">> {
    this.#archive = await Archive.open(PRODUCER, kept, this.#keep);
    this.#engines = await Engines.load(wasmUrl, this.#emit);
    const { durable } = this.#archive;
    try {
      return { saved: await this.#archive.describe(), durable };
    } catch (error) {
      this.#emit({ event: "notice", message: `The saved run cannot be read: ${messageOf(error)}` });
      return { saved: null, durable };
    }
  }

  async corpus({ corpus, tokenizer: kind }: Request<"corpus">): Promise<Reply<"corpus">> {
    const { tokenizer, tokens } = this.#tokenize(corpus, kind);
    const vocab = tokenizer.spec.kind === "char" ? tokenizer.spec.vocab : "";
    return Promise.resolve({ tokens: tokens.length, vocabSize: tokenizer.vocabSize, vocab });
  }

  gpu({ checked }: Request<"gpu">): Promise<Reply<"gpu">> {
    return this.#need(this.#engines).gpu(checked);
  }

  tune({ values, vocabSize }: Request<"tune">): Promise<Reply<"tune">> {
    return this.#need(this.#engines).tune({ ...trainConfig(values), ...modelConfig(values, vocabSize) });
  }

  cancelTuning(): Promise<null> {
    this.#engines?.cancelTuning();
    return Promise.resolve(null);
  }

  plan({ values, vocabSize, tokens, engine }: Request<"plan">): Promise<Reply<"plan">> {
    const config = { ...trainConfig(values), ...modelConfig(values, vocabSize) };
    return this.#need(this.#engines).facts(config, tokens, engine);
  }

  async start({ values, corpus, engine, live }: Request<"start">): Promise<null> {
    const { tokenizer, tokens } = this.#tokenize(corpus, values.tokenizer as string);
    const info = {
      model: modelConfig(values, tokenizer.vocabSize),
      tokenizer: tokenizer.spec,
      train: trainConfig(values),
      run: runConfig(values),
      corpus: { path: "", sha256: corpus.sha256, name: corpus.name },
      step: 0,
    };
    this.#fill = (session) => session.initWeights();
    await this.#train(info, { tokens, tokenizer, corpus, lines: [], live, engine });
    return null;
  }

  async continue({ engine, corpus, live }: Request<"continue">): Promise<null> {
    const saved = await this.#need(this.#archive).read();
    const { info, moments, metrics } = saved;
    const { train, run } = info;
    if (!train || !run || !moments) {
      throw new TabgptError("the saved model came without a recipe or optimizer state, so it can be sampled, not trained on");
    }
    const text = await this.#corpusOf(info, corpus);
    const tokenizer = tokenizerFrom(info.tokenizer);
    const tokens = info.tokenizer.kind === "byte" ? Uint32Array.from(text.raw) : tokenizer.encode(textOf(text));
    this.#fill = filling(engine.gpu ? await inMemory(saved) : saved);
    await this.#train({ ...info, train, run }, { tokens, tokenizer, corpus: text, lines: fromJsonl(metrics), live, engine });
    return null;
  }

  async pause(): Promise<null> {
    await this.#need(this.#trainer).pause();
    return null;
  }

  resume(): Promise<null> {
    this.#need(this.#trainer).start();
    return Promise.resolve(null);
  }

  async step(): Promise<null> {
    await this.#need(this.#trainer).step();
    return null;
  }

  async stop(): Promise<null> {
    await this.#need(this.#trainer).stop();
    return null;
  }

  /** Samples the session there is, between two steps of a run; else the saved run is opened for it. */
  async sample({ settings, engine }: Request<"sample">): Promise<null> {
    const turn = ++this.#sampling;
    await this.#turns.take(async () => {
      if (!this.#session) await this.#openSaved(engine);
      try {
        await this.#write(settings, turn);
      } catch (error) {
        if (!(error instanceof DeviceLostError)) throw error;
        if (this.#trainer) await this.#trainer.recover(error);
        else await this.#openSaved(engine);
        await this.#write(settings, turn);
      }
    });
    return null;
  }

  async #write(settings: SampleSettings, turn: number): Promise<void> {
    const session = this.#session!;
    const tokenizer = this.#tokenizer ?? tokenizerFrom({ kind: "none" });
    const send = (text: string, done: boolean): void =>
      this.#emit({ event: "sample", live: false, step: session.stepNumber, prompt: settings.prompt, text, done });
    const cancelled = (): boolean => turn !== this.#sampling;
    const report = (text: string): void => send(text, false);
    send(await generate({ session, tokenizer, settings, report, cancelled }), true);
  }

  cancelSample(): Promise<null> {
    this.#sampling++;
    return Promise.resolve(null);
  }

  async save(): Promise<SavedRun | null> {
    const trainer = this.#trainer;
    if (trainer && trainer.state !== "failed") await this.#turns.take(() => this.#save(trainer));
    return this.#need(this.#archive).describe();
  }

  async download({ which }: Request<"download">): Promise<Reply<"download">> {
    const archive = this.#need(this.#archive);
    if (which === "run") {
      const trainer = this.#need(this.#trainer);
      return this.#turns.take(async () => archive.zipOf(await this.#checkpointOf(trainer)));
    }
    await this.save();
    return archive.zip();
  }

  async load({ files, engine }: Request<"load">): Promise<SavedRun> {
    const archive = this.#need(this.#archive);
    const checkpoint = await uploadedCheckpoint(files);
    await this.#openInfer(checkpoint, engine);
    if (!(await archive.write(checkpoint, null))) throw new TabgptError(`${BUSY} Close that tab, then upload again.`);
    return (await archive.describe())!;
  }

  async delete(): Promise<null> {
    await this.#need(this.#archive).delete();
    return null;
  }

  #need<T>(value: T | null): T {
    if (value === null) throw new TabgptError("there is no run to do that with; start or resume one first");
    return value;
  }

  #tokenize(corpus: Corpus, kind: string): Tokenized {
    const key = `${kind} ${corpus.sha256}`;
    if (this.#tokenized?.key !== key) this.#tokenized = { key, ...tokenize(corpus, kind) };
    return this.#tokenized;
  }

  /** The session of a run, in its last state in memory. */
  async #openTraining(info: RunInfo, tokens: Uint32Array, engine: Engine): Promise<RunSession> {
    const problem = corpusProblem(tokens.length, info.model.ctx as number);
    if (problem) throw new TabgptError(problem);
    this.#session?.close();
    const session = await this.#need(this.#engines).open(info, "train", tokens.length, engine);
    session.setTokens(tokens);
    await this.#fill(session);
    if (!session.canBeLost) this.#fill = () => undefined;
    return (this.#session = session);
  }

  async #openInfer(checkpoint: Checkpoint, engine: Engine): Promise<void> {
    const { info } = checkpoint;
    const session = await this.#need(this.#engines).open(info, "infer", 0, engine);
    await filling({ ...checkpoint, moments: null })(session);
    this.#session = session;
    this.#tokenizer = info.tokenizer.kind === "none" ? null : tokenizerFrom(info.tokenizer);
  }

  async #openSaved(engine: Engine): Promise<void> {
    await this.#openInfer(await this.#need(this.#archive).read(), engine);
  }

  /** The text that a run began with, proved by its hash: the page's choice, else the one kept with it. */
  async #corpusOf(info: RunInfo, offered: Corpus | null): Promise<Corpus> {
    const { corpus } = info;
    if (!corpus) throw new TabgptError("the saved run does not say which corpus it was trained on");
    if (offered?.sha256 === corpus.sha256) return offered;
    const kept = await this.#need(this.#archive).corpus(corpus.sha256);
    const text = kept && (await corpusFromBytes(corpus.name, kept));
    if (text?.sha256 === corpus.sha256) return text;
    throw new TabgptError(
      `the run was trained on ${corpus.name} (sha256 ${corpus.sha256.slice(0, 12)}…), which is not here; ` +
        `choose that text as the corpus, then resume`,
    );
  }

  async #train(
    info: RunInfo & { train: Values; run: Values },
    run: { tokens: Uint32Array; tokenizer: Tokenizer; corpus: Corpus; lines: MetricLine[]; live: SampleSettings; engine: Engine },
  ): Promise<void> {
    const { tokens, tokenizer, lines, live, engine } = run;
    const restore = (): Promise<RunSession> => this.#openTraining(info, tokens, engine);
    const session = await restore();
    this.#tokenizer = tokenizer;
    this.#corpus = run.corpus;
    const save = (trainer: Trainer): Promise<boolean> => this.#save(trainer);
    this.#trainer = new Trainer({ session, tokenizer, info, lines, live, emit: this.#emit, save, restore, turns: this.#turns });
    const { totalSteps } = this.#trainer;
    const { isa, memoryBytes } = session;
    this.#emit({ event: "ready", engine: { ...engine, threads: session.threads }, isa, memoryBytes, info, totalSteps });
    this.#emit({ event: "history", points: lines, evals: evalPoints(lines, totalSteps) });
    this.#trainer.start();
  }

  /** False where the run could not be saved: it goes on, and the page offers its download. */
  async #save(trainer: Trainer): Promise<boolean> {
    const archive = this.#need(this.#archive);
    let obstacle = BUSY;
    try {
      if (await archive.write(await this.#checkpointOf(trainer), this.#corpus)) {
        this.#emit({ event: "saved", saved: (await archive.describe())! });
        return true;
      }
    } catch (error) {
      if (error instanceof DeviceLostError || error instanceof NotFiniteError) throw error;
      obstacle = `This run could not be saved (${messageOf(error).replace(/\.$/, "")}).`;
    }
    this.#emit({ event: "unsaved", message: obstacle });
    return false;
  }

  /** Kept in memory where the session can be lost; else its tensors are copied one by one while they are written. */
  async #checkpointOf(trainer: Trainer): Promise<Checkpoint> {
    await trainer.settle();
    const { session, lines, info } = trainer;
    const checkpoint = { info, weights: weightsIn(session), moments: momentsIn(session), metrics: toJsonl(lines) };
    if (!session.canBeLost) return checkpoint;
    const held = await inMemory(checkpoint);
    this.#fill = filling(held);
    return held;
  }
}

function filling({ info, weights, moments }: Checkpoint): Fill {
  return async (session) => {
    await setWeights(session, weights);
    if (moments) await setMoments(session, moments);
    session.stepNumber = info.step;
  };
}

const BUSY = "Another tab of this page keeps its run in this browser's one place for it, so this one is not saved.";
