import { expect, test, vi } from "vitest";
import { corpusFromBytes, corpusFromText, corpusProblem, readFile, splitSizes, tokenize } from "../src/corpus.ts";
import * as format from "../src/ui/format.ts";
import { Series } from "../src/ui/series.ts";
import { evalPoints, fromJsonl, toJsonl } from "../src/worker/metrics.ts";

test("figures are short and never NaN", () => {
  expect(format.count(1234567)).toBe("1,234,567");
  expect(format.short(473_000_000)).toBe("473 M");
  expect(format.short(38_512)).toBe("38.5 k");
  expect(format.bytes(9.44 * 2 ** 20)).toBe("9.44 MiB");
  expect(format.loss(2.34567)).toBe("2.3457");
  expect(format.loss(3.0254e16)).toBe("3.03e+16");
  expect(format.scientific(0.000905)).toBe("9.05e-4");
  expect(format.scientific(1.1499)).toBe("1.15");
  for (const write of [format.count, format.short, format.bytes, format.loss, format.scientific, format.duration]) {
    expect(write(NaN)).toBe("–");
    expect(write(null)).toBe("–");
    expect(write(undefined)).toBe("–");
  }
});

test("an axis's marks differ where its values do", () => {
  expect([0, 5e-4, 7.5e-4, 1e-3].map(format.mark)).toEqual(["0", "5e-4", "7.5e-4", "1e-3"]);
  expect([9.5, 10, 10.5].map(format.mark)).toEqual(["9.5", "10", "10.5"]);
  expect([2e4, 5e27].map(format.mark)).toEqual(["2e+4", "5e+27"]);
});

test("durations grow their unit", () => {
  expect(format.duration(41.6)).toBe("42 s");
  expect(format.duration(200)).toBe("3 min 20 s");
  expect(format.duration(3599.7)).toBe("1 h 00 min");
  expect(format.duration(7500)).toBe("2 h 05 min");
});

test("a value is typed as a person would, and read back the same", () => {
  for (const value of [0, 0.001, 3e-4, 1e-8, 2000, 4294967295]) expect(format.parse(format.typed(value))).toBe(value);
  expect(format.typed(1e-8)).toBe("1e-8");
  expect(format.parse("  ")).toBe("");
  expect(format.parse("1e-3x")).toBeNaN();
});

const point = (step: number, loss: number) => ({ step, loss, lr: 1e-3, gradNorm: 1, tokensPerSecond: 100 });

test("steps and evaluations become columns of one length", () => {
  const series = new Series();
  series.addSteps([point(1, 4), point(2, 3)]);
  series.addEval({ step: 2, valLoss: 3.5, whole: false });
  series.addEval({ step: 9, valLoss: 1, whole: false });
  series.addSteps([point(3, 3)]);
  expect(series.step).toEqual([1, 2, 3]);
  expect(series.val).toEqual([null, 3.5, null]);
  expect(series.lastVal).toBe(3.5);
  expect(series.smooth[0]).toBe(4);
  expect(series.smooth[2]).toBeLessThan(4);
  expect(series.smooth[2]).toBeGreaterThan(3);
});

test("metrics.jsonl has the command line's keys and comes back", () => {
  const lines = [
    { ...point(1, 4.25), wallSeconds: 0.5 },
    { ...point(2, 4), wallSeconds: 1, valLoss: 4.1 },
  ];
  const text = toJsonl(lines);
  expect(Object.keys(JSON.parse(text.split("\n")[1]!) as object)).toEqual([
    "step", "loss", "lr", "grad_norm", "tokens_per_s", "wall_s", "val_loss",
  ]); // prettier-ignore
  expect(fromJsonl(text)).toEqual(lines);
  expect(evalPoints(lines, 2)).toEqual([{ step: 2, valLoss: 4.1, whole: true }]);
});

test("a corpus is its bytes without the mark, whatever it is read as", async () => {
  const plain = await corpusFromText("a", "hello\r\n");
  const marked = await corpusFromText("a", "\uFEFFhello\r\n");
  expect(marked.sha256).toBe(plain.sha256);
  expect(tokenize(plain, "char").tokenizer.vocabSize).toBe(6);
  expect([...tokenize(marked, "byte").tokens.slice(-2)]).toEqual([13, 10]);
});

test("a file that would take the tab's memory is refused unread", () => {
  const file = { name: "all.txt", size: 2 ** 28 + 1 } as File;
  expect(() => readFile(file)).toThrow(/all.txt holds 268435457 bytes.*at most 268435456/);
});

test("without hashes, as over plain HTTP, the way out is named", async () => {
  vi.stubGlobal("crypto", {});
  await expect(corpusFromText("a", "b")).rejects.toThrow(/HTTPS or on localhost/);
  vi.unstubAllGlobals();
});

test("the validation split is the last tenth, and short texts name both lengths", () => {
  expect(splitSizes(1009)).toEqual({ train: 909, val: 100 });
  expect(corpusProblem(100, 64)).toBe("");
  expect(corpusProblem(18, 64)).toMatch(/18 tokens give 17 for training and 1 for validation.*65 and 2/);
});

test("text that is no UTF-8 is refused as characters and taken as bytes", async () => {
  const corpus = await corpusFromBytes("latin1.txt", Uint8Array.of(0x63, 0xe9));
  expect(() => tokenize(corpus, "char")).toThrow(/latin1.txt is not UTF-8/);
  expect([...tokenize(corpus, "byte").tokens]).toEqual([0x63, 0xe9]);
});
