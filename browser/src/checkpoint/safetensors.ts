/**
 * @file The safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes end to end.
 * The reader refuses everything odd and names the tensor; the writer pads the header to 8 bytes. Both go
 * tensor by tensor, so that a file of any size passes through the memory of its largest tensor.
 */
import { messageOf, TabgptError } from "../core/errors.ts";

export interface TensorEntry {
  dtype: string;
  shape: number[];
  /** The tensor's bytes, a part of the file. */
  bytes: Blob;
}

export interface TensorFile {
  metadata: Record<string, string>;
  tensors: Map<string, TensorEntry>;
}

export type Bytes = Uint8Array<ArrayBuffer>;

export interface NamedTensor {
  name: string;
  shape: number[];
  /** Its values, read or copied when they are wanted. */
  read(): Promise<Float32Array<ArrayBuffer>>;
}

/** A file that is made while it is written. */
export interface FileSource {
  name: string;
  /** In bytes. */
  size: number;
  /** Its bytes, in pieces. */
  parts: Iterable<Bytes> | AsyncIterable<Bytes>;
}

const DTYPE_BYTES: Record<string, number> = {
  BOOL: 1, U8: 1, I8: 1, F8_E5M2: 1, F8_E4M3: 1, I16: 2, U16: 2, F16: 2, BF16: 2,
  I32: 4, U32: 4, F32: 4, F64: 8, I64: 8, U64: 8,
}; // prettier-ignore

/** The limit of the format's own library. */
const MAX_HEADER = 100_000_000;
const PREFIX = 8;

type Header = Record<string, unknown>;

/** Where the tensors' bytes start, from the first 8 bytes. */
function dataStart(head: Bytes, fileLength: number, name: string): number {
  if (head.length < PREFIX) throw new TabgptError(`${name} holds ${head.length} bytes; a safetensors file has at least 8`);
  const length = Number(new DataView(head.buffer, head.byteOffset).getBigUint64(0, true));
  if (length > MAX_HEADER) {
    throw new TabgptError(`${name} claims a header of ${length} bytes; at most ${MAX_HEADER} are allowed, so it is damaged`);
  }
  const start = PREFIX + length;
  if (start > fileLength) {
    throw new TabgptError(`${name} is truncated: its header ends at byte ${start}, the file at ${fileLength}`);
  }
  return start;
}

function isObject(value: unknown): value is Header {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Refuses names that come twice, of which JSON.parse keeps the last: it holds fewer than the text. */
function checkNames(json: string, header: Header, name: string): void {
  let written = 0;
  for (const [, colon] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g)) if (colon) written++;
  let kept = Object.keys(header).length;
  for (const value of Object.values(header)) if (isObject(value)) kept += Object.keys(value).length;
  if (written !== kept) throw new TabgptError(`the header of ${name} holds a name twice; the file is damaged`);
}

function parseHeader(json: Bytes, name: string): { entries: Header; metadata: Record<string, string> } {
  let header: unknown;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(json); // true: keep it, as no JSON
    header = JSON.parse(text);
  } catch (error) {
    throw new TabgptError(`the header of ${name} is no JSON (${messageOf(error)}); the file is damaged`);
  }
  if (!isObject(header)) {
    throw new TabgptError(`the header of ${name} is no JSON object; the file is damaged`);
  }
  const { __metadata__: metadata = {}, ...entries } = header;
  if (!isObject(metadata) || !Object.values(metadata).every((v) => typeof v === "string")) {
    throw new TabgptError(`the metadata of ${name} is not a map of strings; the file is damaged`);
  }
  for (const [tensor, entry] of Object.entries(entries)) checkKeys(tensor, entry);
  checkNames(text, header, name);
  return { entries, metadata: metadata as Record<string, string> };
}

function checkKeys(tensor: string, entry: unknown): void {
  const keys = isObject(entry) ? Object.keys(entry).sort().join(", ") : "no object";
  if (keys !== "data_offsets, dtype, shape") {
    throw new TabgptError(`tensor "${tensor}" needs dtype, shape and data_offsets, it has ${keys || "nothing"}`);
  }
}

/** The header, checked, and where the tensors' bytes start. */
async function readHeader(file: Blob, name: string): Promise<ReturnType<typeof parseHeader> & { start: number }> {
  const read = async (begin: number, end: number): Promise<Bytes> => new Uint8Array(await file.slice(begin, end).arrayBuffer());
  const start = dataStart(await read(0, PREFIX), file.size, name);
  return { start, ...parseHeader(await read(PREFIX, start), name) };
}

/** A file's metadata without reading its tensors. */
export async function readMetadata(file: Blob, name: string): Promise<Record<string, string>> {
  return (await readHeader(file, name)).metadata;
}

/** A part of the header for a message, short; what is nested too deeply has no JSON. */
function shown(value: unknown): string {
  try {
    const json = JSON.stringify(value) ?? "nothing";
    return json.length > 100 ? `${json.slice(0, 100)}…` : json;
  } catch {
    return "something nested too deeply";
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Checks one header entry against its own shape and dtype. */
function entryOf(name: string, value: unknown): { dtype: string; shape: number[]; begin: number; end: number } {
  const entry = value as { dtype?: unknown; shape?: unknown; data_offsets?: unknown };
  const { dtype, shape, data_offsets: offsets } = entry;
  const size = typeof dtype === "string" ? DTYPE_BYTES[dtype] : undefined;
  if (size === undefined) throw new TabgptError(`tensor "${name}" has the unknown dtype ${shown(dtype)}`);
  if (!Array.isArray(shape) || !shape.every(isCount)) {
    throw new TabgptError(`tensor "${name}" has the shape ${shown(shape)}, not a list of sizes`);
  }
  const [begin, end] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
  if (!isCount(begin) || !isCount(end) || end < begin) {
    throw new TabgptError(`tensor "${name}" has the offsets ${shown(offsets)}, not [begin, end]`);
  }
  const wanted = shape.reduce((product: number, axis: number) => product * axis, size);
  if (end - begin !== wanted) {
    throw new TabgptError(
      `tensor "${name}" of shape ${shown(shape)} and dtype ${String(dtype)} needs ${wanted} bytes, ` +
        `but its offsets span ${end - begin}`,
    );
  }
  return { dtype: dtype as string, shape: shape as number[], begin, end };
}

/** Parses a file whose tensors must fill it without hole or overlap; reads none yet. Throws TabgptError. */
export async function readSafetensors(file: Blob, name = "model.safetensors"): Promise<TensorFile> {
  const { start, ...header } = await readHeader(file, name);
  const entries = Object.entries(header.entries).map(([tensor, value]) => ({ tensor, ...entryOf(tensor, value) }));
  entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let reached = 0;
  for (const { tensor, begin, end } of entries) {
    if (begin > reached) throw new TabgptError(`${begin - reached} bytes before tensor "${tensor}" belong to no tensor`);
    if (begin < reached) throw new TabgptError(`tensor "${tensor}" overlaps the one before it by ${reached - begin} bytes`);
    reached = end;
  }
  const held = file.size - start;
  if (reached > held) {
    const cut = entries.find((entry) => entry.end > held)!;
    throw new TabgptError(`${name} is truncated: tensor "${cut.tensor}" ends at byte ${cut.end} of ${held}`);
  }
  if (reached < held) throw new TabgptError(`${held - reached} bytes after the last tensor of ${name} belong to no tensor`);
  const tensors = new Map(
    entries.map(({ tensor, dtype, shape, begin, end }) => [
      tensor,
      { dtype, shape, bytes: file.slice(start + begin, start + end) },
    ]),
  );
  return { metadata: header.metadata, tensors };
}

/** A tensor's values as float32; refuses other dtypes than F32 and F64, and values that are not finite. */
export async function toFloat32(name: string, { dtype, bytes }: TensorEntry): Promise<Float32Array<ArrayBuffer>> {
  if (dtype !== "F32" && dtype !== "F64") {
    throw new TabgptError(`tensor "${name}" has dtype ${dtype}; F32 and F64 can be read, so convert it to F32`);
  }
  const held = await bytes.arrayBuffer();
  const values = dtype === "F32" ? new Float32Array(held) : Float32Array.from(new Float64Array(held));
  const bad = values.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) throw new TabgptError(`tensor "${name}" holds ${values[bad]} at element ${bad}; the checkpoint is unusable`);
  return values;
}

/** A file's tensors as they stand in it. */
export function tensorsOf(file: TensorFile): NamedTensor[] {
  return [...file.tensors].map(([name, entry]) => ({ name, shape: entry.shape, read: () => toFloat32(name, entry) }));
}

function bytesOf(shape: number[]): number {
  return shape.reduce((product, axis) => product * axis, Float32Array.BYTES_PER_ELEMENT);
}

/** A file of these tensors: the header, then each tensor's bytes as they are read. */
export function writeSafetensors(name: string, tensors: NamedTensor[], metadata: Record<string, string>): FileSource {
  let offset = 0;
  const header: Record<string, unknown> = { __metadata__: metadata };
  for (const { name: tensor, shape } of tensors) {
    header[tensor] = { dtype: "F32", shape, data_offsets: [offset, (offset += bytesOf(shape))] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const padded = Math.ceil(json.length / PREFIX) * PREFIX;
  const head = new Uint8Array(PREFIX + padded).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(padded), true);
  head.set(json, PREFIX);
  return { name, size: head.length + offset, parts: inTurn(head, tensors) };
}

async function* inTurn(head: Bytes, tensors: NamedTensor[]): AsyncGenerator<Bytes> {
  yield head;
  for (const { read } of tensors) {
    const values = await read();
    yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  }
}
