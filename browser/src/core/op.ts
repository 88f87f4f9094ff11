/**
 * @file Single kernels by name, for parity tests and benches.
 */
import type { Core } from "./core.ts";

const POINTER_BYTES = { 32: 4, 64: 8 } as const;

/**
 * Runs a kernel (names, parameters and tensors in cpp/src/ops.cpp); `tensors` are changed in place. An
 * empty one stands for an optional tensor that is absent (NULL).
 */
export function runOp(core: Core, name: string, params: number[], tensors: Float32Array[], threads = 1): void {
  core.withArrays(tensors, (...allocated) => {
    const pointers = allocated.map((pointer, i) => (tensors[i]!.length > 0 ? pointer : 0));
    const table = pointerTable(pointers, core.build.address);
    const status = core.withArrays([name, new Float64Array(params), table], (n, p, t) =>
      core.abi.tabgpt_op(n!, p!, params.length, t!, tensors.length, threads),
    );
    core.check(status, name);
    tensors.forEach((tensor, i) => tensor.set(core.floats(pointers[i]!, tensor.length)));
  });
}

/** Little-endian pointers, as a C array of them. */
function pointerTable(pointers: number[], bits: 32 | 64): Uint32Array {
  const words = POINTER_BYTES[bits] / 4;
  const table = new Uint32Array(pointers.length * words);
  pointers.forEach((pointer, i) => {
    table[i * words] = pointer % 2 ** 32;
    if (words === 2) table[i * words + 1] = Math.floor(pointer / 2 ** 32);
  });
  return table;
}
