/**
 * @file A worker's end of tests/tab_workers.py: one job at a time, answered by its result or its error.
 */
import { messageOf } from "../../browser/src/core/index.ts";

export function answer<Job>(work: (job: Job) => unknown): void {
  globalThis.onmessage = async ({ data }: MessageEvent<Job>) => {
    try {
      globalThis.postMessage({ result: await work(data) });
    } catch (error) {
      globalThis.postMessage({ error: messageOf(error) });
    }
  };
}

/** Where the worker lies, beside the folders wasm and check. */
export const SITE = new URL(".", self.location.href);
export const WASM_URL = new URL("wasm/", SITE).href;

export async function fetched(path: string): Promise<Response> {
  const response = await fetch(new URL(path, SITE));
  if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
  return response;
}
