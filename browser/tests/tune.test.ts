import { expect, test, vi } from "vitest";
import { BUILDS, Core } from "../src/core/index.ts";
import type { OpenDevice } from "../src/gpu/gpu.ts";
import { isOffered, onGpu } from "../src/gpu/kernels.ts";
import type { Row } from "../src/sweep/protocol.ts";
import { fastest, modelCases, tune } from "../src/sweep/tune.ts";

const CONFIG = { batch_size: 2, ctx: 8, d_model: 12, d_mlp: 48, vocab_size: 20, n_layer: 3, n_head: 2 };
const kernel = (family: string, name: string, fields = {}) => ({ family, name, feature: "", training: true, default: false, ...fields });
const CASES = [
  { op: "matmul NN 2 2 2", group: "model", count: 3 },
  { op: "matmul NN 9 9 9", group: "model", count: 1 },
];
const PRODUCTS = [kernel("matmul", "plain", { default: true }), kernel("matmul", "quick"), kernel("matmul", "half")];

function row(variant: string, op: string, time: number | null): Row {
  return {
    kind: "kernel", case: op, group: "model", variant, software: false, skipped: time === null ? "no room" : "", ok: time !== null,
    error: 0, flops: 1, bytes: 1, calls: 1, gpu_s: [], wall_s: time === null ? [] : [time], disagree: false,
  }; // prettier-ignore
}

test("a model's cases are its products both ways, the head's, and its attention, each as often as a step has it", () => {
  const cases = new Map(modelCases(CONFIG).map(({ op, count }) => [op, count]));
  expect(cases.get("matmul NN 16 12 36")).toBe(3);
  expect(cases.get("matmul TN 48 16 12")).toBe(3);
  expect(cases.get("matmul NT 16 12 20")).toBe(1);
  expect(cases.get("attention backward 2 2 8 6")).toBe(3);
  expect(cases.size).toBe(17);
});

test("the fastest kernel has the least time of a whole step, and ran everywhere", () => {
  const rows = CASES.flatMap(({ op }, i) => [row("plain", op, [2, 8][i]!), row("quick", op, [1, 9][i]!), row("half", op, [0.1, null][i]!)]);
  expect(fastest(rows, CASES, PRODUCTS)).toEqual({ choice: "matmul=quick", gain: 14 / 12 });
  expect(() => fastest(CASES.flatMap(({ op }) => PRODUCTS.map(({ name }) => row(name, op, null))), CASES, PRODUCTS)).toThrow(/no matmul kernel could be measured.*no room/);
});

test("a choice is offered where the core trains with it and the device has what it needs", () => {
  const variants = [...PRODUCTS, kernel("matmul", "warp", { feature: "subgroups" }), kernel("matmul", "odd", { training: false })];
  expect(isOffered("", variants, [])).toBe(true);
  expect(isOffered("matmul=quick", variants, [])).toBe(true);
  expect(isOffered("matmul=warp", variants, [])).toBe(false);
  expect(isOffered("matmul=warp", variants, ["subgroups"])).toBe(true);
  expect(isOffered("matmul=odd", variants, [])).toBe(false);
  expect(isOffered("matmul=gone", variants, [])).toBe(false);
});

test("the core is told of the GPU before it is told of a choice, which may name another vendor", () => {
  expect(onGpu("matmul=warp", { vendor: "nvidia", features: ["subgroups"] })).toBe("vendor=nvidia feature=subgroups matmul=warp");
  expect(onGpu("", { vendor: "", features: [] })).toBe("");
});

/** Kernels that take as long as their names; what they compute is for other tests. */
vi.mock("../src/sweep/kernels.ts", () => ({
  measureCase: (_stage: unknown, { op }: { op: string }, variants: readonly { name: string }[]) =>
    Promise.resolve(variants.map(({ name }) => row(name, op, name.length))),
}));
vi.mock("../src/gpu/clock.ts", () => ({ wallQuantum: () => 1e-6, GpuClock: { create: () => Promise.resolve({ destroy: () => undefined }) } }));

test("tuning measures every case, and chooses nothing that was stopped or that fails the check of a whole step", async () => {
  const build = BUILDS.find(({ name }) => name === "scalar")!;
  const core = await Core.load({ build, baseUrl: new URL("../public/wasm/", import.meta.url).href, bytes: 32 * 2 ** 20, threads: 1 });
  const open = { device: { handle: { features: new Set(["shader-f16"]) } } } as unknown as OpenDevice;
  const check = vi.fn().mockResolvedValueOnce({ worst: 0.5, name: "", problem: "" }).mockResolvedValueOnce({ worst: 9, name: "h", problem: "h is off" });
  const onCase = vi.fn();
  const tuning = { open, core, config: CONFIG, onCase, check, isStopped: () => false };

  const { choice, gain } = await tune(tuning);
  expect(choice).toMatch(/^matmul=\w+ attention=\w+$/);
  expect(gain).toBeGreaterThanOrEqual(1);
  expect(onCase).toHaveBeenCalledTimes(17);
  expect(check).toHaveBeenCalledWith(open, core, choice);

  await expect(tune(tuning)).rejects.toThrow(/fail the page's check: h is off; the kernels stay as they were/);
  await expect(tune({ ...tuning, isStopped: () => true })).rejects.toThrow("tuning was stopped");
  expect(check).toHaveBeenCalledTimes(2);
});
