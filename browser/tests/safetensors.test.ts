import { expect, test } from "vitest";
import { readMetadata, readSafetensors, toFloat32, writeSafetensors, type Bytes } from "../src/checkpoint/safetensors.ts";


function file(header: string | object, data = new Uint8Array(0), claimed?: number): Bytes {
  const json = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const out = new Uint8Array(8 + json.length + data.length);
  new DataView(out.buffer).setBigUint64(0, BigInt(claimed ?? json.length), true);
  out.set(json, 8);
  out.set(data, 8 + json.length);
  return out;
}

const entry = (begin: number, end: number, shape = [(end - begin) / 4], dtype = "F32"): object => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

const blob = (bytes: Bytes): Blob => new Blob([bytes]);

async function written(...args: Parameters<typeof writeSafetensors>): Promise<Bytes[]> {
  const { parts, size } = writeSafetensors(...args);
  const pieces: Bytes[] = [];
  for await (const part of parts) pieces.push(part);
  expect(size).toBe(pieces.reduce((sum, piece) => sum + piece.length, 0));
  return pieces;
}

function join(parts: Bytes[]): Bytes {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

test("what is written is read", async () => {
  const tensors = [
    { name: "wte", shape: [2, 2], values: Float32Array.of(1, -2, 3.5, 1e-38) },
    { name: "bias", shape: [1], values: Float32Array.of(0.1) },
    { name: "empty", shape: [0], values: new Float32Array(0) },
  ];
  const metadata = { format: "pt", text: "é\u{1F98A}" };
  const named = tensors.map(({ name, shape, values }) => ({ name, shape, read: () => Promise.resolve(values) }));
  const bytes = join(await written("x", named, metadata));
  const read = await readSafetensors(blob(bytes));
  expect(read.metadata).toEqual(metadata);
  expect(await readMetadata(new Blob([bytes]), "x")).toEqual(metadata);
  for (const { name, shape, values } of tensors) {
    expect(read.tensors.get(name)!.shape).toEqual(shape);
    expect(await toFloat32(name, read.tensors.get(name)!)).toEqual(values);
  }
});

test("the header is padded to 8 bytes", async () => {
  for (const name of ["a", "ab", "abc", "abcdefgh"]) {
    const [head] = await written("x", [{ name, shape: [1], read: () => Promise.resolve(Float32Array.of(1)) }], {});
    expect(head!.length % 8).toBe(0);
  }
});

test("float64 is read as float32", async () => {
  const data = new Uint8Array(Float64Array.of(0.1, -3).buffer);
  const { tensors } = await readSafetensors(blob(file({ w: entry(0, 16, [2], "F64") }, data)));
  expect(await toFloat32("w", tensors.get("w")!)).toEqual(Float32Array.of(0.1, -3));
});

const eight = new Uint8Array(8);
const BAD: [string, Bytes, RegExp][] = [
  ["an empty file", new Uint8Array(0), /holds 0 bytes/],
  ["a few bytes", new Uint8Array(5), /holds 5 bytes/],
  ["an oversized header", file("{}", eight, 2 ** 40), /header of 1099511627776 bytes/],
  ["a header past the end", file("{}", eight, 999), /truncated/],
  ["no JSON", file("nonsense"), /no JSON/],
  ["no UTF-8", join([file("", new Uint8Array(0), 2), Uint8Array.of(0xff, 0xfe)]), /no JSON/],
  ["a list", file("[]"), /no JSON object/],
  ["metadata that is no text", file({ __metadata__: { step: 3 } }), /metadata/],
  ["an unknown dtype", file({ w: entry(0, 8, [8], "Q4") }, eight), /"w" has the unknown dtype "Q4"/],
  ["a negative size", file({ w: entry(0, 8, [-2]) }, eight), /"w" has the shape \[-2\]/],
  ["a fractional size", file({ w: entry(0, 8, [1.5]) }, eight), /"w" has the shape/],
  ["offsets in the wrong order", file({ w: { dtype: "F32", shape: [2], data_offsets: [8, 0] } }, eight), /"w" has the offsets/],
  ["no offsets", file({ w: { dtype: "F32", shape: [2] } }, eight), /"w" needs dtype, shape and data_offsets, it has dtype, shape$/],
  ["odd offsets", file({ w: { dtype: "F32", shape: [2], data_offsets: [8] } }, eight), /"w" has the offsets \[8\]/],
  ["a wrong length", file({ w: entry(0, 8, [3]) }, eight), /"w" of shape \[3\] and dtype F32 needs 12 bytes/],
  ["a hole at the start", file({ w: entry(4, 8, [1]) }, eight), /4 bytes before tensor "w"/],
  ["a hole between", file({ a: entry(0, 4), b: entry(8, 12) }, new Uint8Array(12)), /4 bytes before tensor "b"/],
  ["an overlap", file({ a: entry(0, 8), b: entry(4, 8) }, eight), /"b" overlaps the one before it by 4 bytes/],
  ["bytes at the end", file({ a: entry(0, 4) }, eight), /4 bytes after the last tensor/],
  ["truncated data", file({ a: entry(0, 8), b: entry(8, 16) }, eight), /truncated: tensor "b"/],
  // Found by tests/fuzz_checkpoints.py: all of these were read, or not refused by name.
  ["metadata that is a list", file({ __metadata__: ["a"] }), /metadata/],
  ["a tensor twice", file('{"w":{},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'), /a name twice/],
  ["a field twice", file('{"w":{"dtype":"F64","dtype":"F32","shape":[0],"data_offsets":[0,0]}}'), /a name twice/],
  ["metadata twice", file('{"__metadata__":{"a":"b","\\u0061":"c"}}'), /a name twice/],
  ["a field too many", file({ w: { ...entry(0, 0), stride: 4 } }), /"w" needs .* shape, stride$/],
  ["a byte-order mark", file("\ufeff{}"), /no JSON/],
  ["a shape nested deeply", file(`{"w":{"dtype":"F32","shape":${"[".repeat(1e5)}${"]".repeat(1e5)},"data_offsets":[0,0]}}`), /"w" has the shape/],
];

test("a string that looks like a name is none", async () => {
  const metadata = { a: '", "b": "', "c:": ':"d":' };
  expect((await readSafetensors(blob(file({ __metadata__: metadata })))).metadata).toEqual(metadata);
});

test.each(BAD)("%s is refused", async (_name, bytes, message) => {
  await expect(readSafetensors(blob(bytes))).rejects.toThrow(message);
});

test("values that are not finite are refused, with tensor and element", async () => {
  for (const value of [NaN, Infinity, -Infinity]) {
    const data = new Uint8Array(Float32Array.of(1, value).buffer);
    const { tensors } = await readSafetensors(blob(file({ w: entry(0, 8) }, data)));
    await expect(toFloat32("w", tensors.get("w")!)).rejects.toThrow(`tensor "w" holds ${value} at element 1`);
  }
});

test("a dtype that is no float is refused where it is needed", async () => {
  const { tensors } = await readSafetensors(blob(file({ w: entry(0, 8, [4], "F16") }, eight)));
  await expect(toFloat32("w", tensors.get("w")!)).rejects.toThrow(/dtype F16/);
});
