import { expect, test } from "vitest";
import { defaultPrompt, nameCharacter, tokenizerFrom, vocabularyOf } from "../src/tokenizer.ts";

test("a vocabulary is sorted by code point, where UTF-16 order differs", () => {
  const fox = "\u{1F98A}"; // its UTF-16 units start with D83E, below U+FF5E
  const wave = "\uFF5E";
  expect([fox, wave].sort()).toEqual([fox, wave]);
  expect(vocabularyOf(`${fox}${wave}a`)).toBe(`a${wave}${fox}`);
});

test("characters round trip, emoji included", () => {
  const text = "to be \u{1F98A}\n\u{1F43B}, or not";
  const tokenizer = tokenizerFrom({ kind: "char", vocab: vocabularyOf(text) });
  const ids = tokenizer.encode(text);
  expect(ids.length).toBe([...text].length);
  expect(tokenizer.decode(ids)).toBe(text);
});

test("unknown characters are named, each once", () => {
  const tokenizer = tokenizerFrom({ kind: "char", vocab: "abc" });
  expect(() => tokenizer.encode("aéé\n\u{1F98A}")).toThrow(/'é' \(U\+00E9\), line feed \(U\+000A\), '\u{1F98A}' \(U\+1F98A\)/u);
});

test("a vocabulary that repeats or is out of order is refused", () => {
  for (const vocab of ["aa", "ba", ""]) expect(() => tokenizerFrom({ kind: "char", vocab })).toThrow(/vocabulary/);
});

test("all 256 bytes are ids, and UTF-8 comes back whole", () => {
  const tokenizer = tokenizerFrom({ kind: "byte" });
  const text = "é\u{1F98A}\uFEFF";
  expect(tokenizer.vocabSize).toBe(256);
  expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  expect([...tokenizer.encode("\u{1F98A}")]).toEqual([0xf0, 0x9f, 0xa6, 0x8a]);
  expect(tokenizer.decode(Array.from({ length: 256 }, (_, i) => i))).toHaveLength(256);
});

test("a decoder holds back the bytes of an unfinished character", () => {
  const decode = tokenizerFrom({ kind: "byte" }).decoder();
  expect([0xf0, 0x9f, 0xa6, 0x8a].map(decode)).toEqual(["", "", "", "\u{1F98A}"]);
});

test("an empty prompt is a line feed where there is one, else token 0", () => {
  expect([...defaultPrompt(tokenizerFrom({ kind: "char", vocab: "\nab" }))]).toEqual([0]);
  expect([...defaultPrompt(tokenizerFrom({ kind: "char", vocab: "ab" }))]).toEqual([0]);
  expect([...defaultPrompt(tokenizerFrom({ kind: "byte" }))]).toEqual([10]);
});

test("a model without a tokenizer says so", () => {
  expect(() => tokenizerFrom({ kind: "none" })).toThrow(/without a tokenizer/);
  expect(nameCharacter(" ")).toBe("space (U+0020)");
});
