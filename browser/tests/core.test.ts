import { expect, test } from "vitest";
import { BUILDS, chooseBuild, obstacle, usableBuilds, withThreads, type Features } from "../src/core/builds.ts";
import { MEMORY_ROLES, type MemoryPlan, type MemoryRole } from "../src/core/config.ts";
import { memoryFor, memoryObstacle } from "../src/core/planner.ts";
import { bindExport, fromAddress, makeMemory, toAddress } from "../src/core/pointers.ts";

const ALL: Features = { simd: true, relaxed: true, threads: true, isolated: true, cores: 8 };

test("the best build is chosen, and why is said", () => {
  expect(chooseBuild(ALL)).toMatchObject({ build: { name: "relaxed-threads" }, threads: 8 });
  expect(chooseBuild({ ...ALL, relaxed: false })).toMatchObject({ build: { name: "simd-threads" } });
  const alone = chooseBuild({ ...ALL, isolated: false });
  expect(alone).toMatchObject({ build: { name: "relaxed" }, threads: 1 });
  expect(alone.reason).toMatch(/not cross-origin isolated/);
  expect(chooseBuild({ ...ALL, cores: 1 }).build.name).toBe("relaxed");
  const plain = chooseBuild({ simd: false, relaxed: false, threads: false, isolated: false, cores: 4 });
  expect(plain.build.name).toBe("scalar");
});

test("an engine is offered only what it can run", () => {
  const old = { ...ALL, relaxed: false, threads: false };
  expect(usableBuilds(old).map(({ name }) => name)).toEqual(["scalar", "simd"]);
  for (const build of BUILDS.filter(({ address }) => address === 32)) expect(obstacle(build, ALL)).toBe("");
  const relaxed = BUILDS.find(({ name }) => name === "relaxed")!;
  expect(withThreads(relaxed, true).name).toBe("relaxed-threads");
});

test("addresses above 2 GiB are unsigned, of either width", () => {
  expect(fromAddress(-1, 32)).toBe(2 ** 32 - 1);
  expect(fromAddress(5_000_000_000n, 64)).toBe(5_000_000_000);
  expect(toAddress(7, 64)).toBe(7n);
  expect(toAddress(7, 32)).toBe(7);
});

test("exports cross by their signature", () => {
  const seen: unknown[] = [];
  const raw = (...values: (number | bigint)[]): number | bigint => {
    seen.push(values);
    return values[0]!;
  };
  expect(bindExport(raw, "p:pd", 64)(3e9, 0.5)).toBe(3e9);
  expect(seen).toEqual([[3_000_000_000n, 0.5]]);
  expect(bindExport(() => -2147483648, "p:", 32)()).toBe(2 ** 31);
  expect(bindExport(() => -1, "i:", 32)()).toBe(-1);
  expect(bindExport(() => undefined, "v:p", 32)(1)).toBe(0);
});

test("memory is whole pages", () => {
  expect(makeMemory(100_000, 100_000, false, 32).buffer.byteLength).toBe(131072);
  expect(makeMemory(1, 65536, true, 32).buffer).toBeInstanceOf(SharedArrayBuffer);
});

test("a plan that no 32-bit build holds is refused with its size", () => {
  const plan = (bytes: number, role: MemoryRole = "activations"): MemoryPlan => ({
    ...(Object.fromEntries(MEMORY_ROLES.map((each) => [each, 0])) as MemoryPlan),
    [role]: bytes,
    total: bytes,
  });
  expect(memoryObstacle(plan(1e9), 2, 32)).toBe("");
  expect(memoryFor(plan(1e9), 2)).toBeGreaterThan(1e9);
  expect(memoryObstacle(plan(2.5 * 2 ** 30), 2, 32)).toBe("");
  expect(memoryObstacle(plan(2.5 * 2 ** 30, "kv_cache"), 2, 32)).toMatch(/kv_cache take 2.50 GiB.*2.00 GiB in one piece/);
  expect(memoryObstacle(plan(5 * 2 ** 30), 2, 32)).toMatch(/takes 5.1. GiB, but a 32-bit build reaches 4.00 GiB/);
  expect(memoryObstacle(plan(5 * 2 ** 30), 2, 64)).toBe("");
});
