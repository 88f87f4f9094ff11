/**
 * @file Characters or bytes to token ids and back, as reference/tabgpt/tokenizer.py does it.
 */
import { TabgptError } from "./core/errors.ts";

/** As the checkpoint's metadata stores it. "none": a model whose tokenizer we do not have. */
export type TokenizerSpec = { kind: "char"; vocab: string } | { kind: "byte" } | { kind: "none" };

export interface Tokenizer {
  readonly spec: TokenizerSpec;
  readonly vocabSize: number;
  /** Throws TabgptError for text outside the vocabulary, naming it. */
  encode(text: string): Uint32Array;
  decode(ids: ArrayLike<number>): string;
  /** A function from the next id to the text that it completes: "" inside a character of many bytes. */
  decoder(): (id: number) => string;
}

const NAMES: Record<string, string> = { "\n": "line feed", "\r": "carriage return", "\t": "tab", " ": "space" };

/** A character so that a person can find it: 'é' (U+00E9). */
export function nameCharacter(character: string): string {
  const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
  return `${NAMES[character] ?? `'${character}'`} (U+${code})`;
}

/** One token a code point of the corpus, sorted by code point (JavaScript's own sort is by UTF-16). */
class CharTokenizer implements Tokenizer {
  readonly spec: TokenizerSpec;
  readonly vocabSize: number;
  readonly #characters: string[];
  readonly #ids: Map<string, number>;

  constructor(vocab: string) {
    this.#characters = [...vocab];
    if (vocab === "") throw new TabgptError("the character vocabulary is empty; it needs a character or more");
    if (/\p{Surrogate}/u.test(vocab)) {
      throw new TabgptError(`the character vocabulary holds half a surrogate pair: ${JSON.stringify(vocab.slice(0, 80))}`);
    }
    this.#characters.forEach((character, i) => {
      const next = this.#characters[i + 1];
      if (next !== undefined && next.codePointAt(0)! <= character.codePointAt(0)!) {
        throw new TabgptError(
          `the character vocabulary is not sorted by code point without repeats: ${nameCharacter(character)} ` +
            `is followed by ${nameCharacter(next)} at position ${i + 1}`,
        );
      }
    });
    this.#ids = new Map(this.#characters.map((character, id) => [character, id]));
    this.vocabSize = this.#characters.length;
    this.spec = { kind: "char", vocab };
  }

  encode(text: string): Uint32Array {
    const ids = new Uint32Array(text.length);
    let count = 0;
    const unknown = new Set<string>();
    for (const character of text) {
      const id = this.#ids.get(character);
      if (id === undefined) unknown.add(character);
      else ids[count++] = id;
    }
    if (unknown.size > 0) {
      const shown = [...unknown].slice(0, 5).map(nameCharacter).join(", ");
      const more = unknown.size > 5 ? ` and ${unknown.size - 5} more` : "";
      throw new TabgptError(
        `the model's vocabulary has no ${shown}${more}; it knows the ${this.vocabSize} characters of its corpus, ` +
          `so leave them out or train with the byte tokenizer`,
      );
    }
    return ids.slice(0, count);
  }

  decode(ids: ArrayLike<number>): string {
    return Array.from(ids, this.decoder()).join("");
  }

  decoder(): (id: number) => string {
    return (id) => this.#characters[id] ?? "\uFFFD";
  }
}

class ByteTokenizer implements Tokenizer {
  readonly spec: TokenizerSpec = { kind: "byte" };
  readonly vocabSize = 256;

  encode(text: string): Uint32Array {
    return Uint32Array.from(new TextEncoder().encode(text));
  }

  /** Bytes that are no UTF-8 become U+FFFD. */
  decode(ids: ArrayLike<number>): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(ids));
  }

  decoder(): (id: number) => string {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return (id) => decoder.decode(Uint8Array.of(id), { stream: true });
  }
}

export function tokenizerFrom(spec: TokenizerSpec): Tokenizer {
  if (spec.kind === "char") return new CharTokenizer(spec.vocab);
  if (spec.kind === "byte") return new ByteTokenizer();
  throw new TabgptError(
    "this model came without a tokenizer that tabgpt has, so it can only be read as token ids, not as text",
  );
}

/** The vocabulary of a text: its code points, sorted. */
export function vocabularyOf(text: string): string {
  const points = new Set<number>();
  for (const character of text) points.add(character.codePointAt(0)!);
  return [...points].sort((a, b) => a - b).map((point) => String.fromCodePoint(point)).join("");
}

/** What sampling starts from where no prompt is given: a line feed if there is one, else token 0. */
export function defaultPrompt(tokenizer: Tokenizer): Uint32Array {
  try {
    return tokenizer.encode("\n");
  } catch {
    return Uint32Array.of(0);
  }
}
