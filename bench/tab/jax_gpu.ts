/** @file jax-js on WebGPU. */
import { startJax } from "./jax_library.ts";
import { serveLibrary } from "./library.ts";

serveLibrary(() => startJax("webgpu"));
