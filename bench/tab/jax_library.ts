/**
 * @file jax-js on one of its devices; jit, because its products are fastest there.
 */
import { defaultDevice, init, jit, numpy as np } from "@jax-js/jax";
import type { Library, Product } from "./library.ts";

/** Results that a GPU may still be at work on; without a bound their memory has none either. */
const MOST_UNDER_WAY = 8;

export async function startJax(device: "wasm" | "webgpu"): Promise<Library> {
  const devices = await init(device);
  if (!devices.includes(device)) throw new Error(`jax-js finds no ${device} here`);
  defaultDevice(device);

  async function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const x = np.array(a, { shape: transposeA ? [K, M] : [M, K] });
    const y = np.array(b, { shape: transposeB ? [N, K] : [K, N] });
    const product = (left: np.Array, right: np.Array) =>
      np.matmul(transposeA ? left.transpose() : left, transposeB ? right.transpose() : right);
    const compiled = jit(product);
    const made = [compiled(x.ref, y.ref)];
    /** Waits for all, and keeps the latest. */
    const settle = async () => {
      for (const out of made) await out.blockUntilReady();
      for (const out of made.splice(0, made.length - 1)) out.dispose();
    };
    await settle();
    return {
      run: async () => {
        made.push(compiled(x.ref, y.ref));
        if (device === "wasm" || made.length > MOST_UNDER_WAY) await settle();
      },
      settle,
      out: async () => (await made.at(-1)!.ref.data()) as Float32Array,
      free: () => [x, y, ...made].forEach((array) => array.dispose()),
    };
  }

  const how = device === "wasm" ? `, ${navigator.hardwareConcurrency} workers` : "";
  return { about: `@jax-js/jax, ${device}${how}`, prepare };
}
