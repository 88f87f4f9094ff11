/**
 * @file How a worker of the benches talks to bench/tab_page.py, and what its workers share: the clock's
 * step, and arrays as text.
 */
import { messageOf } from "../../browser/src/core/errors.ts";

/** Answers each job by the result of its handler, or by its error's message. */
export function answer<Job>(handle: (job: Job) => unknown): void {
  const answerOne = async (job: Job) => self.postMessage({ result: await handle(job) });
  self.addEventListener("message", ({ data }: MessageEvent<Job>) => {
    answerOne(data).catch((error: unknown) => self.postMessage({ error: messageOf(error) }));
  });
}

/** Smallest step of performance.now() that shows, in seconds. */
export function clockQuantum(): number {
  let smallest = Infinity;
  for (let i = 0; i < 200; i++) {
    const before = performance.now();
    let now = before;
    while (now === before) now = performance.now();
    smallest = Math.min(smallest, now - before);
  }
  return smallest / 1000;
}

/** The bytes of base64 text. */
export const fromBase64 = (text: string): ArrayBuffer =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

export function toBase64(values: Float32Array): string {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}
