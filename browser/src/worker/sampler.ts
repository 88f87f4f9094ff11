/**
 * @file Text from a session, a token at a time, letting other messages in between.
 */
import { defaultPrompt, type Tokenizer } from "../tokenizer.ts";
import type { SampleSettings } from "./protocol.ts";
import type { RunSession } from "./session.ts";
import { breathe } from "./turns.ts";

/** Text goes to the page at most this often. */
const REPORT_MS = 80;

export interface Generation {
  session: RunSession;
  tokenizer: Tokenizer;
  settings: SampleSettings;
  /** The continuation so far, without the prompt. */
  report: (text: string) => void;
  cancelled: () => boolean;
}

/** Gives the whole continuation, cut before the stop text. Throws TabgptError for an unknown character. */
export async function generate({ session, tokenizer, settings, report, cancelled }: Generation): Promise<string> {
  const { prompt, maxNewTokens, stop } = settings;
  session.generateBegin(prompt === "" ? defaultPrompt(tokenizer) : tokenizer.encode(prompt), settings);
  const decode = tokenizer.decoder();
  let text = "";
  let reported = performance.now();
  for (let i = 0; i < maxNewTokens && !cancelled(); i++) {
    const piece = decode(await session.generateNext());
    text += piece;
    const end = stop === "" ? -1 : text.indexOf(stop, Math.max(0, text.length - piece.length - stop.length));
    if (end >= 0) return text.slice(0, end);
    if (performance.now() - reported < REPORT_MS) continue;
    report(text);
    await breathe();
    reported = performance.now();
  }
  return text;
}
