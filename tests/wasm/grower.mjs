/**
 * @file A thread that grows a WASM memory by a page at a time while another computes in it. A worker of
 * Node or of a browser. `page` is 1 in the memory's own width; `signal` is shared: [0] 1 while it is to go
 * on, [1] pages grown so far.
 */
const PAUSE_MS = 0.2;
const port = globalThis.postMessage ? globalThis : (await import("node:worker_threads")).parentPort;

port.onmessage = ({ data: { memory, page, signal, limit } }) => {
  while (Atomics.load(signal, 0) === 1 && memory.buffer.byteLength < limit) {
    memory.grow(page);
    Atomics.add(signal, 1, 1);
    Atomics.wait(signal, 0, 1, PAUSE_MS);
  }
  port.postMessage("done");
};
port.postMessage("ready");
