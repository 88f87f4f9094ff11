/**
 * @file Whether a run gets 32-bit or 64-bit memory: 64 bits where its plan needs them or somebody asks,
 * else 32, which are faster. What cannot be had here is refused before anything is allocated.
 */
import { BUILDS, obstacle, type Build, type Features } from "./builds.ts";
import { MEMORY_ROLES, type MemoryPlan } from "./config.ts";
import { maximumBytes } from "./memory.ts";
import { memoryFor } from "./planner.ts";
import type { AddressBits } from "./pointers.ts";

/** "auto" is by need. */
export const WIDTHS = ["auto", "32", "64"] as const;
export type Width = (typeof WIDTHS)[number];

export interface Fit {
  /** What the run would get. */
  build: Build;
  /** Why it cannot, with bytes needed, bytes there are, and what would help; "" where it can. */
  problem: string;
}

/** Emscripten's malloc (dlmalloc, sys_alloc's HALF_MAX_SIZE_T) gives less than half the address space in one piece. */
const LARGEST_PIECE = 2 ** 31;

const SMALLER = "choose fewer layers, or a smaller width, batch or context";
/** Where Memory64 is on without a flag. */
const WHERE =
  "64-bit memory is in Chrome and Edge from version 133 and in Firefox from 134, where the page's server sends COOP and COEP headers";

/** Why a build of this width cannot hold a plan; "" where it can. */
export function memoryObstacle(memory: MemoryPlan, threads: number, bits: AddressBits): string {
  const needed = memoryFor(memory, threads);
  const limit = maximumBytes(bits);
  if (needed > limit) return `This run takes ${bytesText(needed)}, but a ${bits}-bit build reaches ${bytesText(limit)}`;
  // Activations are several pieces (cpp/src/plan.cpp).
  const large = MEMORY_ROLES.find((role) => !["total", "activations"].includes(role) && memory[role] >= LARGEST_PIECE);
  if (bits === 64 || !large) return "";
  return `The ${large} take ${bytesText(memory[large])}, but a 32-bit build gives less than ${bytesText(LARGEST_PIECE)} in one piece`;
}

/** The 64-bit build with the kernels of another. It has threads, of which a run may use one. */
export function twin64(kind: Build): Build {
  return BUILDS.find(({ address, relaxed }) => address === 64 && relaxed === kind.relaxed)!;
}

/** The build of this kind that a run gets; a 64-bit kind is always itself. */
export function fit(kind: Build, width: Width, memory: MemoryPlan, threads: number, features: Features): Fit {
  const tooLarge = memoryObstacle(memory, threads, 32);
  const fits32 = width === "32" || (width === "auto" && !tooLarge);
  if (kind.address === 32 && fits32) {
    return { build: kind, problem: tooLarge && `${tooLarge}. ${remedy(memory, threads, features)}` };
  }
  const build = twin64(kind);
  const missing = obstacle(build, features);
  if (missing) {
    const why = tooLarge ? `${tooLarge}, and ${missing}` : `64-bit memory cannot be had: ${missing}`;
    return { build, problem: `${why}. ${WHERE}; use one of these, or ${tooLarge ? SMALLER : "choose 32-bit memory"}.` };
  }
  const beyond = memoryObstacle(memory, threads, 64);
  return { build, problem: beyond && `${beyond}, the most that any browser gives; ${SMALLER}.` };
}

/** For a run that 32 bits do not hold although they were asked for. */
function remedy(memory: MemoryPlan, threads: number, features: Features): string {
  if (memoryObstacle(memory, threads, 64)) return `No browser gives more than ${bytesText(maximumBytes(64))}; ${SMALLER}.`;
  if (features.memory64.shared) return `Choose 64-bit memory, or ${SMALLER}.`;
  return `${WHERE}; use one of these, or ${SMALLER}.`;
}

/** "8.31 GiB (8,923,045,888 bytes)". */
function bytesText(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB (${bytes.toLocaleString("en-US")} bytes)`;
}
