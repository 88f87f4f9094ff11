/**
 * @file tfjs on its WebAssembly backend, SIMD and threads where the page is isolated. An operand is
 * transposed by an operation of its own: matMul's flags leave XNNPACK for a plain loop ten times slower.
 */
import * as tf from "@tensorflow/tfjs-core";
import { getThreadsCount, setThreadsCount, setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import { type Product, serveLibrary } from "./library.ts";

async function start(threads: number) {
  setWasmPaths(new URL("tfjs/", self.location.href).href);
  setThreadsCount(threads);
  await tf.setBackend("wasm");

  function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const x = tf.tensor2d(a, transposeA ? [K, M] : [M, K]);
    const y = tf.tensor2d(b, transposeB ? [N, K] : [K, N]);
    const product = () =>
      tf.tidy(() => tf.matMul(transposeA ? tf.transpose(x) : x, transposeB ? tf.transpose(y) : y));
    let latest = product();
    return {
      run: () => {
        latest.dispose();
        latest = product();
      },
      out: async () => (await latest.data()) as Float32Array,
      free: () => tf.dispose([x, y, latest]),
    };
  }

  return { about: `@tensorflow/tfjs ${tf.version_core}, wasm, ${getThreadsCount()} threads`, prepare };
}

serveLibrary(start);
