/**
 * @file onnxruntime-web on its WebAssembly backend: a graph of one Gemm. Each run copies the operands
 * into the library's memory and the result out of it; it has no other way for a graph's inputs.
 */
import * as ort from "onnxruntime-web/wasm";
import { type Product, serveLibrary } from "./library.ts";
import { gemmModel } from "./onnx.ts";

function start(threads: number) {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = new URL("ort/", self.location.href).href;

  async function prepare({ M, N, K, transposeA, transposeB, a, b }: Product) {
    const shapes = [transposeA ? [K, M] : [M, K], transposeB ? [N, K] : [K, N]] as const;
    const model = gemmModel(shapes[0] as [number, number], shapes[1] as [number, number], transposeA, transposeB);
    const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
    const feeds = { a: new ort.Tensor("float32", a, shapes[0]), b: new ort.Tensor("float32", b, shapes[1]) };
    let latest = await session.run(feeds);
    return {
      run: async () => {
        latest = await session.run(feeds);
      },
      out: () => latest["out"]!.data as Float32Array,
      free: () => void session.release(),
    };
  }

  return { about: `onnxruntime-web ${ort.env.versions.web}, wasm, ${ort.env.wasm.numThreads} threads`, prepare };
}

serveLibrary(start);
