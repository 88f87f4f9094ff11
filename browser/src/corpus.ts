/**
 * @file A corpus is its bytes without a leading byte order mark; newlines stay as they are. The hash is
 * of those bytes, here and in reference/tabgpt/corpus.py.
 */
import { TabgptError } from "./core/errors.ts";
import { VALIDATION_DIVISOR } from "./presets.ts";
import { tokenizerFrom, vocabularyOf, type Tokenizer } from "./tokenizer.ts";

export interface Corpus {
  /** What the page calls it: a file's name, or "pasted text". */
  name: string;
  raw: Uint8Array<ArrayBuffer>;
  sha256: string;
}

export const DEFAULT_CORPUS = "shakespeare.txt";

const MARK = [0xef, 0xbb, 0xbf];

async function sha256(bytes: BufferSource): Promise<string> {
  // Undefined, whatever its type says, where the page came over plain HTTP from another machine.
  if (!(crypto.subtle as SubtleCrypto | undefined)) {
    throw new TabgptError("the browser gives this page no hashes, since it was opened over plain HTTP; open it over HTTPS or on localhost");
  }
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function corpusFromBytes(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<Corpus> {
  const raw = MARK.every((byte, i) => bytes[i] === byte) ? bytes.slice(MARK.length) : bytes;
  return { name, raw, sha256: await sha256(raw) };
}

export function corpusFromText(name: string, text: string): Promise<Corpus> {
  return corpusFromBytes(name, new TextEncoder().encode(text));
}

/** Reading takes a dozen times as much memory: bytes, their copy, characters, tokens and their copies. */
const MAX_FILE_BYTES = 2 ** 28;

/** A file's bytes. Throws TabgptError for one that would take the tab's memory. */
export function readFile(file: File): Promise<ArrayBuffer> {
  if (file.size > MAX_FILE_BYTES) {
    throw new TabgptError(
      `${file.name} holds ${file.size} bytes; a tab reads a text of at most ${MAX_FILE_BYTES}. ` +
        `Choose a part of it, or train with the command line`,
    );
  }
  return file.arrayBuffer();
}

/** The text, strictly UTF-8; TabgptError names the way out. */
export function textOf(corpus: Corpus): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(corpus.raw);
  } catch {
    throw new TabgptError(`${corpus.name} is not UTF-8 text; convert it to UTF-8, or use the byte tokenizer`);
  }
}

/** A new tokenizer of a kind (char or byte) for a corpus, and the corpus's ids. */
export function tokenize(corpus: Corpus, kind: string): { tokenizer: Tokenizer; tokens: Uint32Array } {
  if (corpus.raw.length === 0) throw new TabgptError(`${corpus.name} is empty; it needs text to train on`);
  if (kind === "byte") return { tokenizer: tokenizerFrom({ kind }), tokens: Uint32Array.from(corpus.raw) };
  const text = textOf(corpus);
  const tokenizer = tokenizerFrom({ kind: "char", vocab: vocabularyOf(text) });
  return { tokenizer, tokens: tokenizer.encode(text) };
}

/** Tokens in the training and validation splits. */
export function splitSizes(tokens: number): { train: number; val: number } {
  const val = Math.floor(tokens / VALIDATION_DIVISOR);
  return { train: tokens - val, val };
}

/** Why a corpus of this many tokens cannot train; "" where it can. */
export function corpusProblem(tokens: number, ctx: number): string {
  const { train, val } = splitSizes(tokens);
  if (train >= ctx + 1 && val >= 2) return "";
  return (
    `Too short: ${tokens} tokens give ${train} for training and ${val} for validation, ` +
    `but a context of ${ctx} needs at least ${ctx + 1} and 2. Use a longer text or a shorter context.`
  );
}
