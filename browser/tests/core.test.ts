import { expect, test } from "vitest";
import { BUILDS, chooseBuild, obstacle, usableBuilds, withThreads, type Build, type Features } from "../src/core/builds.ts";
import { MEMORY_ROLES, type MemoryPlan, type MemoryRole } from "../src/core/config.ts";
import { makeMemory, memory64 } from "../src/core/memory.ts";
import { memoryFor } from "../src/core/planner.ts";
import { bindExport, fromAddress, pointerTable, toAddress } from "../src/core/pointers.ts";
import { fit, memoryObstacle } from "../src/core/width.ts";

const NO_64 = { plain: "", shared: "" } as const;
const ALL: Features = {
  simd: true,
  relaxed: true,
  threads: true,
  isolated: true,
  memory64: { plain: "address", shared: "address" },
  cores: 8,
};

test("the best build is chosen, and why is said", () => {
  expect(chooseBuild(ALL)).toMatchObject({ build: { name: "relaxed-threads" }, threads: 8 });
  expect(chooseBuild({ ...ALL, relaxed: false })).toMatchObject({ build: { name: "simd-threads" } });
  const alone = chooseBuild({ ...ALL, isolated: false });
  expect(alone).toMatchObject({ build: { name: "relaxed" }, threads: 1 });
  expect(alone.reason).toMatch(/not cross-origin isolated/);
  expect(chooseBuild({ ...ALL, cores: 1 }).build.name).toBe("relaxed");
  const plain = chooseBuild({ ...ALL, simd: false, relaxed: false, threads: false, isolated: false });
  expect(plain.build.name).toBe("scalar");
});

test("an engine is offered only what it can run", () => {
  const old = { ...ALL, relaxed: false, threads: false };
  expect(usableBuilds(old).map(({ name }) => name)).toEqual(["scalar", "simd"]);
  for (const build of BUILDS) expect(obstacle(build, ALL)).toBe("");
  const narrow = { ...ALL, memory64: { plain: "address", shared: "" } } as const;
  for (const build of BUILDS) expect(obstacle(build, narrow)).toMatch(build.address === 64 ? /Memory64/ : /^$/);
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

test("a C array of pointers has their width", () => {
  expect([...pointerTable([0, 2 ** 32 - 16], 32)]).toEqual([0, 2 ** 32 - 16]);
  expect([...pointerTable([7, 5 * 2 ** 32 + 9], 64)]).toEqual([7, 0, 9, 5]);
});

test("memory is whole pages", () => {
  expect(makeMemory(100_000, 100_000, false, 32).buffer.byteLength).toBe(131072);
  expect(makeMemory(1, 65536, true, 32).buffer).toBeInstanceOf(SharedArrayBuffer);
});

const plan = (bytes: number, role: MemoryRole = "activations"): MemoryPlan => ({
  ...(Object.fromEntries(MEMORY_ROLES.map((each) => [each, 0])) as MemoryPlan),
  [role]: bytes,
  total: bytes,
});
const GIB = 2 ** 30;
const kind = (name: string): Build => BUILDS.find((build) => build.name === name)!;

test("a plan that a build does not hold is refused with its bytes and the build's", () => {
  expect(memoryObstacle(plan(1e9), 2, 32)).toBe("");
  expect(memoryFor(plan(1e9), 2)).toBeGreaterThan(1e9);
  expect(memoryObstacle(plan(2.5 * GIB), 2, 32)).toBe("");
  expect(memoryObstacle(plan(2.5 * GIB, "kv_cache"), 2, 32)).toMatch(/kv_cache take 2.50 GiB.*than 2.00 GiB.*in one piece/);
  expect(memoryObstacle(plan(5 * GIB), 2, 32)).toMatch(
    /takes 5.1. GiB \([\d,]+ bytes\), but a 32-bit build reaches 4.00 GiB \(4,294,901,760 bytes\)/,
  );
  expect(memoryObstacle(plan(5 * GIB), 2, 64)).toBe("");
});

test("a run gets 64-bit memory where it needs it, with the kernels of its build", () => {
  const given = (...args: Parameters<typeof fit>): string => (expect(fit(...args).problem).toBe(""), fit(...args).build.name);
  const relaxed = kind("relaxed-threads");
  expect(given(relaxed, "auto", plan(1 * GIB), 2, ALL)).toBe("relaxed-threads");
  expect(given(relaxed, "auto", plan(5 * GIB), 2, ALL)).toBe("relaxed-threads-64");
  expect(given(relaxed, "auto", plan(2.5 * GIB, "adam_m"), 2, ALL)).toBe("relaxed-threads-64");
  expect(given(kind("simd"), "auto", plan(5 * GIB), 1, ALL)).toBe("simd-threads-64");
  expect(given(relaxed, "64", plan(1 * GIB), 2, ALL)).toBe("relaxed-threads-64");
  expect(given(kind("simd-threads-64"), "auto", plan(1 * GIB), 2, ALL)).toBe("simd-threads-64");
  expect(given(relaxed, "32", plan(1 * GIB), 2, { ...ALL, memory64: NO_64 })).toBe("relaxed-threads");
});

test("what cannot run is refused with the bytes, the limit, and who can", () => {
  const problem = (...args: Parameters<typeof fit>): string => fit(...args).problem;
  const relaxed = kind("relaxed-threads");
  const needed = /takes 5\.\d\d GiB \([\d,]+ bytes\).*reaches 4\.00 GiB/;
  const who = /Chrome and Edge from version 133 and in Firefox from 134/;
  for (const features of [{ ...ALL, memory64: NO_64 }, { ...ALL, isolated: false }]) {
    expect(problem(relaxed, "auto", plan(5 * GIB), 2, features)).toMatch(needed);
    expect(problem(relaxed, "auto", plan(5 * GIB), 2, features)).toMatch(who);
    expect(problem(relaxed, "64", plan(1 * GIB), 2, features)).toMatch(/cannot be had.*32-bit/);
  }
  expect(problem(relaxed, "auto", plan(5 * GIB), 2, { ...ALL, isolated: false })).toMatch(/COOP and COEP/);
  expect(problem(relaxed, "32", plan(5 * GIB), 2, ALL)).toMatch(needed);
  expect(problem(relaxed, "32", plan(5 * GIB), 2, ALL)).toMatch(/Choose 64-bit memory/);
  expect(problem(relaxed, "32", plan(5 * GIB), 2, { ...ALL, memory64: NO_64 })).toMatch(who);
  for (const width of ["auto", "64"] as const) {
    expect(problem(relaxed, width, plan(20 * GIB), 2, ALL)).toMatch(/takes 20.44 GiB.*64-bit build reaches 16.00 GiB.*any browser/);
  }
  expect(problem(relaxed, "32", plan(20 * GIB), 2, ALL)).toMatch(/No browser gives more than 16.00 GiB/);
});

test("64-bit memory is found by the spelling that gives one, shared or not", () => {
  expect(memory64()).toEqual({ plain: "address", shared: "address" }); // Node 24
  const memory = makeMemory(100_000, 5 * GIB, true, 64);
  expect(memory.buffer.byteLength).toBe(131072);
  expect(() => memory.grow(1)).toThrow(TypeError); // it counts in BigInt
});
