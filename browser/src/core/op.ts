/**
 * @file Single kernels by name, for parity tests and benches.
 */
import type { Core } from "./core.ts";
import { pointerTable } from "./pointers.ts";

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
