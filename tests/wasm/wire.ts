/**
 * @file The line between pytest and a process that runs a core: one JSON line, then the arrays' bytes.
 * tests/remote.py is the other end.
 */
import { writeSync } from "node:fs";

interface ArrayHeader {
  dtype: "float32" | "uint32";
  shape: number[];
}

const LINE_END = 10;
/** Standard output, or the descriptor that a library which prints leaves alone. */
const SINK = Number(process.env["WIRE"] ?? 1);

/** Requests from standard input, one after the other. The loop yields, so that WASM threads can start. */
export async function* requests(): AsyncGenerator<{ call: string; args: Record<string, unknown>; arrays: Uint8Array[] }> {
  let pending = Buffer.alloc(0);
  const input = process.stdin[Symbol.asyncIterator]();
  const more = async (): Promise<boolean> => {
    const { done, value } = await input.next();
    if (!done) pending = Buffer.concat([pending, value as Buffer]);
    return !done;
  };
  for (;;) {
    let end = pending.indexOf(LINE_END);
    while (end < 0) {
      if (!(await more())) return;
      end = pending.indexOf(LINE_END);
    }
    const { call, args, bytes } = JSON.parse(pending.subarray(0, end).toString()) as {
      call: string;
      args: Record<string, unknown>;
      bytes: number[];
    };
    pending = pending.subarray(end + 1);
    const total = bytes.reduce((sum, length) => sum + length, 0);
    while (pending.length < total) if (!(await more())) return;
    let offset = 0;
    const arrays = bytes.map((length) => Uint8Array.from(pending.subarray(offset, (offset += length))));
    pending = pending.subarray(total);
    yield { call, args, arrays };
  }
}

/** Answers a request: a JSON result and arrays with their shapes. */
export function answer(result: unknown, arrays: { values: Float32Array; shape: number[] }[] = []): void {
  const headers: ArrayHeader[] = arrays.map(({ shape }) => ({ dtype: "float32", shape }));
  write(Buffer.from(`${JSON.stringify({ result, arrays: headers })}\n`));
  for (const { values } of arrays) write(Buffer.from(values.buffer, values.byteOffset, values.byteLength));
}

export function refuse(error: string): void {
  write(Buffer.from(`${JSON.stringify({ error })}\n`));
}

/** All of a buffer to standard output; a full pipe is waited for. */
function write(data: Buffer): void {
  for (let sent = 0; sent < data.length; ) {
    try {
      sent += writeSync(SINK, data, sent);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
