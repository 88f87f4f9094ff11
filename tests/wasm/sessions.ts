/**
 * @file What pytest asks of sessions, wherever they compute: tests/remote.py sends the calls, runner.ts and
 * tests/gpu/tab.ts carry them.
 */
import type { CoreConfig, Mode, Sampling, Session, Split } from "../../browser/src/core/index.ts";
import type { GpuSession } from "../../browser/src/gpu/session.ts";

/** What calls are given, each its own part of it. */
export interface Arguments {
  session: number;
  config: CoreConfig;
  mode: Mode;
  threads: number;
  variants: string;
  name: string;
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

export type AnySession = Session | GpuSession;
export type Handler<A extends Arguments = Arguments> = (args: A, arrays: Uint8Array[]) => unknown;

/** A result that is arrays; everything else is JSON. */
export class Arrays {
  readonly list: { values: Float32Array; shape: number[] }[];
  constructor(list: { values: Float32Array; shape: number[] }[]) {
    this.list = list;
  }
}

export const ids = (bytes: Uint8Array | undefined): Uint32Array => new Uint32Array(bytes!.buffer);
export const floats = (bytes: Uint8Array | undefined): Float32Array => new Float32Array(bytes!.buffer);

const sessions = new Map<number, AnySession>();
let opened = 0;

export const session = ({ session: id }: Arguments): AnySession => sessions.get(id)!;

/** The calls, on sessions that `open` makes. */
export function sessionHandlers(open: (args: Arguments, tokens: number) => Promise<AnySession>): Record<string, Handler> {
  return {
    open: async (args, [tokens]) => {
      const made = await open(args, tokens ? ids(tokens).length : 0);
      if (tokens) made.setTokens(ids(tokens));
      sessions.set(++opened, made);
      return opened;
    },
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
    init_weights: (args) => session(args).initWeights(),
    step: async (args) => {
      const { loss, lr, gradNorm, finite } = await session(args).step();
      return { loss: String(loss), lr, grad_norm: String(gradNorm), finite }; // JSON has no NaN
    },
    step_number: (args) => session(args).stepNumber,
    set_step_number: (args) => {
      session(args).stepNumber = args.step;
    },
    loss: async (args, [x, y]) => String(await session(args).loss(ids(x), ids(y), args.batch, args.length, args)),
    loss_and_grads: async (args, [x, y]) =>
      String(await session(args).lossAndGrads(ids(x), ids(y), args.batch, args.length, args)),
    logits: async (args, [x]) => {
      const { batch, length, vocab } = args;
      return new Arrays([{ values: await session(args).logits(ids(x), batch, length, vocab), shape: [batch, length, vocab] }]);
    },
    evaluate: async (args) => String(await session(args).evaluate(args.split, args.batches)),
    generate: async (args, [prompt]) => {
      session(args).generateBegin(ids(prompt), args.sampling);
      const tokens: number[] = [];
      while (tokens.length < args.count) tokens.push(await session(args).generateNext());
      return tokens;
    },
  };
}
