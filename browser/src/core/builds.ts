/**
 * @file The WASM builds, and which of them this engine can run. The list is wasm/variants.json, the one
 * that the build script compiles; order there is from the plainest to the fastest.
 */
import { relaxedSimd, simd, threads as wasmThreads } from "wasm-feature-detect";
import variants from "../../../wasm/variants.json" with { type: "json" };
import { memory64, type Memory64 } from "./memory.ts";
import type { AddressBits } from "./pointers.ts";

export interface Build {
  name: string;
  simd: boolean;
  relaxed: boolean;
  threads: boolean;
  address: AddressBits;
}

export const BUILDS: readonly Build[] = variants.variants.map(({ name, simd: kernels, threads, memory64 }) => ({
  name,
  simd: kernels !== "none",
  relaxed: kernels === "relaxed",
  threads,
  address: memory64 ? 64 : 32,
}));

export interface Features {
  simd: boolean;
  relaxed: boolean;
  /** The engine has WASM threads. */
  threads: boolean;
  /** The page may use them: cross-origin isolated, or not a browser. */
  isolated: boolean;
  memory64: Memory64;
  cores: number;
}

export async function detectFeatures(): Promise<Features> {
  const [hasSimd, hasRelaxed, hasThreads] = await Promise.all([simd(), relaxedSimd(), wasmThreads()]);
  const scope = globalThis as { crossOriginIsolated?: boolean };
  return {
    simd: hasSimd,
    relaxed: hasRelaxed,
    threads: hasThreads,
    isolated: scope.crossOriginIsolated ?? true,
    memory64: memory64(),
    cores: globalThis.navigator?.hardwareConcurrency ?? 1,
  };
}

/** Why this engine cannot run a build; "" where it can. */
export function obstacle(build: Build, features: Features): string {
  if (build.simd && !features.simd) return "this browser has no WASM SIMD";
  if (build.relaxed && !features.relaxed) return "this browser has no relaxed SIMD";
  if (build.address === 64 && !features.memory64[build.threads ? "shared" : "plain"]) {
    return "this browser has no 64-bit WebAssembly memory (Memory64)";
  }
  if (!build.threads) return "";
  if (!features.isolated) {
    return "the page is not cross-origin isolated (its server sends no COOP and COEP headers), so WASM threads are off";
  }
  return features.threads ? "" : "this browser has no WASM threads";
}

/** Builds to choose from: a 64-bit one takes the place of its 32-bit twin where a run needs it (width.ts). */
export const KINDS: readonly Build[] = BUILDS.filter(({ address }) => address === 32);

export function usableBuilds(features: Features, builds: readonly Build[] = KINDS): Build[] {
  return builds.filter((build) => obstacle(build, features) === "");
}

export interface Choice {
  build: Build;
  threads: number;
  /** One sentence for the page. */
  reason: string;
}

const MAX_THREADS = 16;

/** Threads offered: the machine's logical cores, to 16 (more only wait on memory). */
export function threadLimit(features: Features): number {
  return Math.max(1, Math.min(features.cores, MAX_THREADS));
}

function score(build: Build): number {
  return (build.relaxed ? 2 : build.simd ? 1 : 0) + (build.threads ? 4 : 0);
}

/** The best build that runs here: threads first, then relaxed SIMD, then SIMD. */
export function chooseBuild(features: Features, builds: readonly Build[] = KINDS): Choice {
  const usable = usableBuilds(features, builds).filter((build) => !build.threads || threadLimit(features) > 1);
  const best = usable.reduce((a, b) => (score(b) > score(a) ? b : a));
  const better = builds.filter((build) => score(build) > score(best));
  const missing = better.length > 0 ? obstacle(better.at(-1)!, features) || "it has one core" : "";
  const reason = missing ? `The best build here: ${missing}.` : "The fastest build: this browser runs all of them.";
  return { build: best, threads: best.threads ? threadLimit(features) : 1, reason };
}

/** The build with the same kernels, with or without threads. */
export function withThreads(build: Build, threads: boolean, builds: readonly Build[] = BUILDS): Build {
  const same = builds.find(
    (b) => b.threads === threads && b.relaxed === build.relaxed && b.simd === build.simd && b.address === build.address,
  );
  return same ?? build;
}
