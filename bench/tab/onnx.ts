/** @file A model of one Gemm for onnxruntime, written as the protobuf that onnx.proto describes. */

type Field = number | string | Uint8Array;

const OPSET = 13;
const IR_VERSION = 8;
const FLOAT = 1;
const INT_ATTRIBUTE = 2;

function varint(value: number): number[] {
  const bytes = [];
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
  return [...bytes, value];
}

/** A message of [field number, value] pairs: numbers as varints, all else with its length. */
function message(...fields: [number, Field][]): Uint8Array {
  const bytes = fields.flatMap(([number, value]) => {
    if (typeof value === "number") return [...varint(number << 3), ...varint(value)];
    const content = typeof value === "string" ? new TextEncoder().encode(value) : value;
    return [...varint((number << 3) | 2), ...varint(content.length), ...content];
  });
  return Uint8Array.from(bytes);
}

function matrix(name: string, shape: readonly number[]): Uint8Array {
  const dims = shape.map((size): [number, Field] => [1, message([1, size])]);
  return message([1, name], [2, message([1, message([1, FLOAT], [2, message(...dims)])])]);
}

/** out [M,N] = a b, either of them transposed first. */
export function gemmModel(
  a: readonly [number, number],
  b: readonly [number, number],
  transposeA: boolean,
  transposeB: boolean,
): Uint8Array {
  const flag = (name: string, set: boolean) => message([1, name], [3, Number(set)], [20, INT_ATTRIBUTE]);
  const flags = [flag("transA", transposeA), flag("transB", transposeB)];
  const node = message([1, "a"], [1, "b"], [2, "out"], [4, "Gemm"], [5, flags[0]!], [5, flags[1]!]);
  const shape = [a[transposeA ? 1 : 0], b[transposeB ? 0 : 1]];
  const graph = message([1, node], [2, "product"], [11, matrix("a", a)], [11, matrix("b", b)], [12, matrix("out", shape)]);
  return message([1, IR_VERSION], [7, graph], [8, message([2, OPSET])]);
}
