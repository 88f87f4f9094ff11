/**
 * @file WASM memories of either width, and whether this engine has 64-bit ones (Memory64).
 *
 * How a 64-bit memory is asked for changed while the proposal was open: `address: "i64"` now, `index:
 * "i64"` before, with page counts as BigInt or, at first, as numbers. An engine ignores a key that it
 * does not know and hands out a 32-bit memory, so each spelling is proved by a module that needs 64 bits.
 */
import { bindExport, toAddress, type AddressBits } from "./pointers.ts";

const PAGE = 65536;

interface Spelling {
  key: "address" | "index";
  /** Of the page counts: 64 is BigInt. */
  counts: AddressBits;
}

const SPELLINGS: readonly Spelling[] = [
  { key: "address", counts: 64 },
  { key: "index", counts: 64 },
  { key: "index", counts: 32 },
];

/** The descriptor's key that gives 64-bit memories here, for each kind; "" where none does. */
export interface Memory64 {
  plain: Spelling["key"] | "";
  shared: Spelling["key"] | "";
}

/** Which 64-bit memories this engine has. */
export function memory64(): Memory64 {
  return { plain: spelling(false)?.key ?? "", shared: spelling(true)?.key ?? "" };
}

/**
 * Largest memory a build of this width may be given: V8's 16 GiB for Memory64, or 4 GiB but a page, since
 * Emscripten's sbrk counts in 32 bits, in which 4 GiB are 0.
 */
export function maximumBytes(bits: AddressBits): number {
  return bits === 64 ? 16 * 2 ** 30 : 2 ** 32 - PAGE;
}

/** A memory of at least `initial` bytes. Fixed in size when `maximum` equals `initial`. */
export function makeMemory(initial: number, maximum: number, shared: boolean, bits: AddressBits): WebAssembly.Memory {
  const pages = { initial: Math.ceil(initial / PAGE), maximum: Math.ceil(maximum / PAGE), shared };
  if (bits === 32) return new WebAssembly.Memory(pages);
  const spelled = spelling(shared);
  if (!spelled) throw new TypeError("this engine has no 64-bit memory");
  return spell(pages, spelled);
}

function spell(pages: { initial: number; maximum: number; shared: boolean }, { key, counts }: Spelling): WebAssembly.Memory {
  const [initial, maximum] = [toAddress(pages.initial, counts), toAddress(pages.maximum, counts)];
  return new WebAssembly.Memory({ ...pages, initial, maximum, [key]: "i64" } as unknown as WebAssembly.MemoryDescriptor);
}

const found = new Map<boolean, Spelling | null>();

/** The first spelling that gives a memory of 64 bits here. */
function spelling(shared: boolean): Spelling | null {
  if (!found.has(shared)) found.set(shared, SPELLINGS.find((candidate) => is64(candidate, shared)) ?? null);
  return found.get(shared)!;
}

const PROBED = 42;

/** (import "m" "m" (memory i64 1 1)) (func (export "f") (param i64) (result i32)): stores PROBED there, and loads it. */
function probe(shared: boolean): Uint8Array<ArrayBuffer> {
  const limits = shared ? 0x07 : 0x05;
  return Uint8Array.of(
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...[0x01, 0x06, 0x01, 0x60, 0x01, 0x7e, 0x01, 0x7f],
    ...[0x02, 0x09, 0x01, 0x01, 0x6d, 0x01, 0x6d, 0x02, limits, 0x01, 0x01],
    ...[0x03, 0x02, 0x01, 0x00],
    ...[0x07, 0x05, 0x01, 0x01, 0x66, 0x00, 0x00],
    ...[0x0a, 0x10, 0x01, 0x0e, 0x00, 0x20, 0x00, 0x41, PROBED, 0x36, 0x02, 0x00, 0x20, 0x00, 0x28, 0x02, 0x00, 0x0b],
  );
}

/** Instantiating refuses a memory of the other width; the last word of the page shows that it is this one. */
function is64(candidate: Spelling, shared: boolean): boolean {
  try {
    const memory = spell({ initial: 1, maximum: 1, shared }, candidate);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(probe(shared)), { m: { m: memory } });
    const f = bindExport(exports["f"] as Parameters<typeof bindExport>[0], "i:p", 64);
    const last = PAGE - Int32Array.BYTES_PER_ELEMENT;
    return f(last) === PROBED && new DataView(memory.buffer).getInt32(last, true) === PROBED;
  } catch {
    return false;
  }
}
