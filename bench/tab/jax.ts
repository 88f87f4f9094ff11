/**
 * @file jax-js on its WebAssembly device, which starts a worker a core when the page is isolated; jit,
 * because its products are fastest there.
 */
import { defaultDevice, init, jit, numpy as np } from "@jax-js/jax";
import { type Product, serveLibrary } from "./library.ts";

async function start() {
  await init("wasm");
  defaultDevice("wasm");

  async function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const x = np.array(a, { shape: transposeA ? [K, M] : [M, K] });
    const y = np.array(b, { shape: transposeB ? [N, K] : [K, N] });
    const product = (left: np.Array, right: np.Array) =>
      np.matmul(transposeA ? left.transpose() : left, transposeB ? right.transpose() : right);
    const compiled = jit(product);
    let latest = compiled(x.ref, y.ref);
    await latest.blockUntilReady();
    return {
      run: async () => {
        const out = compiled(x.ref, y.ref);
        await out.blockUntilReady();
        latest.dispose();
        latest = out;
      },
      out: async () => (await latest.ref.data()) as Float32Array,
      free: () => [x, y, latest].forEach((array) => array.dispose()),
    };
  }

  return { about: `@jax-js/jax, wasm, ${navigator.hardwareConcurrency} workers`, prepare };
}

serveLibrary(start);
