/** @file Our product, on operands that lie in the core's memory. */
import { BUILDS, Core } from "../../browser/src/core/index.ts";
import { type Product, serveLibrary } from "./library.ts";

const BUILD = "relaxed-threads";
const MEMORY_BYTES = 128 * 2 ** 20;

async function start(threads: number) {
  const build = BUILDS.find(({ name }) => name === BUILD)!;
  const baseUrl = new URL("wasm/", self.location.href).href;
  const core = await Core.load({ build, baseUrl, bytes: MEMORY_BYTES, threads });

  function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const form = transposeA ? 2 : transposeB ? 1 : 0;
    const params = new Float64Array([form, M, N, K, 0, 0, 0, 0, 0, 0, 1]);
    const place = (values: Uint8Array | Uint32Array | Float32Array | Float64Array): number => {
      const pointer = core.alloc(values.byteLength);
      core.bytes(pointer, values.byteLength).set(new Uint8Array(values.buffer));
      return pointer;
    };
    const tensors = [place(a), place(b), place(new Float32Array(M * N).fill(NaN))];
    const name = place(new Uint8Array(new TextEncoder().encode("matmul\0")));
    const numbers = place(params);
    const table = place(Uint32Array.of(...tensors, 0, 0, 0));
    return {
      run: () => void core.check(core.abi.tabgpt_op(name, numbers, params.length, table, 6, threads), "matmul"),
      out: () => core.floats(tensors[2]!, M * N).slice(),
      free: () => [...tensors, name, numbers, table].forEach((pointer) => core.abi.tabgpt_free(pointer)),
    };
  }

  return { about: `${core.isa}, ${threads} threads`, prepare };
}

serveLibrary(start);
