/**
 * @file The one boundary where a pointer's width shows.
 *
 * A wasm32 export takes and returns pointers and size_t as signed 32-bit numbers, a wasm64 export as
 * signed BigInt. Everything above this file sees a plain non-negative `number` (exact to 2^53, so to
 * 8 PiB). Nothing else in the browser may mention BigInt or `>>> 0` for an address.
 */

/** How one argument or result crosses: p pointer or size_t, d double, i int32, u uint32, v nothing. */
export type Crossing = "p" | "d" | "i" | "u" | "v";

/** An export's result and arguments, e.g. "p:pd" for `void *f(size_t, double)`. */
export type Signature = `${Crossing}:${string}`;

export type AddressBits = 32 | 64;

type Raw = number | bigint;
type RawExport = (...values: Raw[]) => Raw | undefined;

/** Passes a pointer or size_t to WASM, or a count of pages to its memory. */
export function toAddress(value: number, bits: AddressBits): Raw {
  return bits === 64 ? BigInt(value) : value;
}

/** Takes a pointer or size_t from WASM, unsigned: above 2 GiB wasm32 hands out negative numbers. */
export function fromAddress(value: Raw, bits: AddressBits): number {
  return bits === 64 ? Number(BigInt.asUintN(64, BigInt(value))) : Number(value) >>> 0;
}

/** Wraps one raw export so that callers pass and get plain numbers. */
export function bindExport(raw: RawExport, signature: Signature, bits: AddressBits): (...values: number[]) => number {
  const [result, parameters] = signature.split(":") as [Crossing, string];
  const isAddress = [...parameters].map((crossing) => crossing === "p");
  const takeResult = (value: Raw | undefined): number => {
    if (result === "v" || value === undefined) return 0;
    if (result === "p") return fromAddress(value, bits);
    return result === "u" ? Number(value) >>> 0 : Number(value);
  };
  if (bits === 32) return (...values) => takeResult(raw(...values));
  return (...values) => takeResult(raw(...values.map((value, i) => (isAddress[i] ? toAddress(value, bits) : value))));
}

/** A C array of pointers, little-endian, as the 32-bit words that it is in memory. */
export function pointerTable(pointers: readonly number[], bits: AddressBits): Uint32Array {
  if (bits === 32) return Uint32Array.from(pointers);
  return new Uint32Array(BigUint64Array.from(pointers, (pointer) => BigInt(pointer)).buffer);
}
