/**
 * @file tfjs on WebGPU, whose product takes transposed operands as they are.
 */
import * as tf from "@tensorflow/tfjs-core";
import type { WebGPUBackend } from "@tensorflow/tfjs-backend-webgpu";
import "@tensorflow/tfjs-backend-webgpu";
import { type Product, serveLibrary } from "./library.ts";

async function start() {
  if (!(await tf.setBackend("webgpu"))) throw new Error("tfjs finds no WebGPU here");
  const backend = tf.backend() as WebGPUBackend;

  function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const x = tf.tensor2d(a, transposeA ? [K, M] : [M, K]);
    const y = tf.tensor2d(b, transposeB ? [N, K] : [K, N]);
    const product = () => tf.matMul(x, y, transposeA, transposeB);
    let latest = product();
    return {
      run: () => {
        latest.dispose();
        latest = product();
      },
      settle: () => {
        // It gathers commands; what it has gathered by now is submitted, as before a read.
        backend.ensureCommandEncoderReady();
        backend.endComputePassEncoder();
        backend.submitQueue();
        return backend.queue.onSubmittedWorkDone();
      },
      out: async () => (await latest.data()) as Float32Array,
      free: () => tf.dispose([x, y, latest]),
    };
  }

  return { about: `@tensorflow/tfjs ${tf.version_core}, webgpu`, prepare };
}

serveLibrary(start);
