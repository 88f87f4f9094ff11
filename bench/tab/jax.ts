/** @file jax-js on its WebAssembly device, which starts a worker a core when the page is isolated. */
import { startJax } from "./jax_library.ts";
import { serveLibrary } from "./library.ts";

serveLibrary(() => startJax("wasm"));
