import { expect, test } from "vitest";
import { CASES, familyOf, GROUPS, sizeOf, STEP_GROUP } from "../src/sweep/definition.ts";
import { disagree, figures, median, seconds } from "../src/sweep/figures.ts";
import type { Row } from "../src/sweep/protocol.ts";
import { recordOf, type Host } from "../src/sweep/record.ts";
import { fastestOf, selectedCases } from "../src/sweep/run.ts";
import { caseLabel, flopRate, percent, span, standing, times } from "../src/ui/sweep_format.ts";

const CASE = "matmul NN 128 128 128";

function row(fields: Partial<Row>): Row {
  return {
    kind: "kernel", case: CASE, group: "cube", variant: "naive", software: true, skipped: "", ok: true, error: 0.25,
    flops: 4e6, bytes: 2e5, calls: 3, gpu_s: [], wall_s: [], disagree: false, ...fields,
  }; // prettier-ignore
}

const NAIVE = row({ gpu_s: [4e-3, 2e-3, 9e-3], wall_s: [5e-3, 5e-3, 5e-3] });
const FAST = row({ variant: "vec4", gpu_s: [1e-3], wall_s: [2e-3] });
const WRONG = row({ variant: "odd", ok: false, error: 3, gpu_s: [1e-9], wall_s: [1e-9] });

test("timestamps count before the wall clock, and the median before all", () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 3])).toBe(2.5);
  expect(seconds(NAIVE)).toBe(4e-3);
  expect(seconds(row({ wall_s: [5e-3] }))).toBe(5e-3);
  expect(seconds(row({}))).toBeNull();
});

test("a rate stands beside the plain kernel's and the best; a wrong kernel has none and is no best", () => {
  const rows = [NAIVE, FAST, WRONG];
  expect(figures(FAST, rows)).toEqual({ rate: 4e9, toNaive: 4, ofBest: 1 });
  expect(figures(NAIVE, rows)).toEqual({ rate: 1e9, toNaive: 1, ofBest: 0.25 });
  expect(figures(WRONG, rows)).toEqual({ rate: null, toNaive: null, ofBest: null });
  expect(figures(FAST, [FAST])).toEqual({ rate: 4e9, toNaive: null, ofBest: 1 });
});

test("clocks disagree at the factor, either way round", () => {
  expect(disagree([1], [1.9], 2)).toBe(false);
  expect(disagree([1], [2], 2)).toBe(true);
  expect(disagree([2], [1], 2)).toBe(true);
  expect(disagree([], [1], 2)).toBe(false);
});

test("the fastest kernel is one that training offers, over the cases that all ran", () => {
  const kernel = (name: string, training = true) => ({ family: "matmul", name, feature: "", training, default: false });
  const other = { case: "matmul NN 256 256 256" };
  const rows = [NAIVE, FAST, WRONG, row({ ...other, wall_s: [1e-3] }), row({ ...other, variant: "vec4", wall_s: [3e-3] })];
  expect(fastestOf(rows, [kernel("naive"), kernel("vec4"), kernel("odd")]).get("matmul")).toBe("vec4");
  expect(fastestOf(rows, [kernel("naive"), kernel("vec4", false)]).get("matmul")).toBe("naive");
  expect(fastestOf(rows, [kernel("naive"), { ...kernel("vec4"), feature: "shader-f16" }]).get("matmul")).toBe("naive");
  expect(fastestOf([WRONG], [kernel("odd")]).has("matmul")).toBe(false);
});

test("cases have sizes, families and known groups; those of a kind go from small to large", () => {
  for (const candidate of CASES) {
    expect(["matmul", "attention"]).toContain(familyOf(candidate));
    expect(Object.keys(GROUPS)).toContain(candidate.group);
    expect(candidate.group).not.toBe(STEP_GROUP);
    expect(sizeOf(candidate)).toBeGreaterThan(0);
  }
  expect(sizeOf({ op: "matmul TN 512 512 512", group: "" })).toBe(512);
  expect(sizeOf({ op: "attention forward 1 6 4096 64", group: "" })).toBe(4096);
  for (const begin of ["matmul NN", "attention forward", "attention backward"]) {
    const sizes = CASES.filter(({ op, group }) => op.startsWith(begin) && group !== "training").map(sizeOf);
    expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
  }
  expect(selectedCases({ groups: ["cube"], most: 128, experimental: true }).map(({ op }) => op)).toEqual([CASE]);
});

test("figures and verdicts in words", () => {
  expect(caseLabel(CASE, "kernel")).toBe("Product NN, 128 × 128 × 128");
  expect(caseLabel("attention forward 1 6 128 64", "kernel")).toBe("Attention forward, batch 1, 6 heads of 64, context 128");
  expect(caseLabel("small", "step")).toBe("A training step of small");
  expect([1.5e9, 2.5e13, null].map(flopRate)).toEqual(["1.50", "25,000", "–"]);
  expect([0.056, 1, null].map(percent)).toEqual(["5.6 %", "100 %", "–"]);
  expect([2, 6.5536e-5, 4.2e-8, null].map(span)).toEqual(["2.00 s", "65.5 µs", "42.0 ns", "–"]);
  expect(times(4)).toBe("4.00 ×");
  expect(standing(FAST)).toBe("right, error 25 % of its bound");
  expect(standing(row({ disagree: true }))).toMatch(/timestamps and wall clock disagree/);
  expect(standing(WRONG)).toMatch(/^wrong, so no speed is shown/);
  expect(standing(row({ ok: false, error: null }))).toBe("wrong: not finite");
  expect(standing(row({ skipped: "this GPU has no subgroups" }))).toBe("skipped: this GPU has no subgroups");
});

test("the record holds raw samples, the device and a verdict", () => {
  const adapter = { identity: "google swiftshader", software: true, features: ["timestamp-query"], limits: { maxBufferSize: 1 } };
  const host: Host = { browser: "Chromium 156", cores: 2, system: "Linux", commit: "0123456789ab", date: new Date("2026-11-30T12:00:00Z") };
  const clock = { gpu: "timestamp-query", gpuQuantum: 65536e-9, wallQuantum: 5e-6 };
  const sweep = { adapter, clock, rows: [NAIVE, row({ skipped: "too long", ok: false })], stopped: false };
  expect(recordOf(sweep, host)).toMatchObject({
    schema: 1,
    date: "2026-11-30",
    machine: { adapter: "google swiftshader", software_adapter: true, features: ["timestamp-query"] },
    results: [{ gpu_s: NAIVE.gpu_s }, { skipped: "too long" }],
    verdict: { ok: true, why: "1 of 1 results within their bound, 1 skipped" },
  });
  expect(recordOf({ ...sweep, rows: [WRONG], stopped: true }, host)).toMatchObject({
    verdict: { ok: false, why: `0 of 1 results within their bound, 0 skipped; wrong: odd of ${CASE}; stopped before its end` },
  });
});
