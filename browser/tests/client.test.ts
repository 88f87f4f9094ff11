import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TrainingClient } from "../src/worker/client.ts";
import type { FromWorker, RunEvent, ToWorker } from "../src/worker/protocol.ts";

/** A worker that answers as told. */
class FakeWorker {
  static made: FakeWorker[] = [];
  static answer: (message: ToWorker) => FromWorker = ({ id }) => ({ type: "done", id, reply: { saved: null, durable: false } });
  onmessage: ((event: { data: FromWorker }) => void) | null = null;
  onerror: ((event: { message: string }) => void) | null = null;
  readonly got: ToWorker[] = [];
  ended = false;

  constructor() {
    FakeWorker.made.push(this);
  }
  postMessage(message: ToWorker): void {
    this.got.push(message);
    const reply = FakeWorker.answer(message);
    queueMicrotask(() => this.onmessage?.({ data: reply }));
  }
  terminate(): void {
    this.ended = true;
  }
}

const plain = FakeWorker.answer;
const kept = { files: new Map([["model.safetensors", new Blob(["x"])]]), corpus: null };
let events: RunEvent[] = [];
let client: TrainingClient;

beforeEach(() => {
  vi.stubGlobal("Worker", FakeWorker);
  FakeWorker.made = [];
  FakeWorker.answer = plain;
  events = [];
  client = new TrainingClient("wasm/", (event) => events.push(event));
});
afterEach(() => vi.unstubAllGlobals());

test("what a worker kept in memory goes to the next one", async () => {
  await client.request("sample", {} as never);
  FakeWorker.made[0]!.onmessage!({ data: { type: "kept", kept } });
  await client.renew();
  expect(FakeWorker.made.map(({ ended }) => ended)).toEqual([true, false]);
  expect(FakeWorker.made[1]!.got[0]).toMatchObject({ command: "open", request: { kept } });
});

test("a worker that dies says so, ends what waits, and is replaced by the next command", async () => {
  await client.open();
  FakeWorker.made[0]!.postMessage = () => undefined;
  const waiting = client.request("pause", null);
  const refused = expect(waiting).rejects.toThrow(/worker failed: boom/);
  await Promise.resolve();
  FakeWorker.made[0]!.onerror!({ message: "boom" });
  await refused;
  expect(events).toMatchObject([{ event: "lost", message: expect.stringMatching(/boom.*kept/) as string }]);
  await client.open();
  expect(FakeWorker.made).toHaveLength(2);
});

test("a thread that fails names the way out", async () => {
  await client.open();
  FakeWorker.made[0]!.onerror!({ message: "Uncaught [object ErrorEvent]" });
  expect(events).toMatchObject([{ message: expect.stringContaining("choose a build without threads") as string }]);
});

test("a worker that could not open is tried anew by the next command", async () => {
  FakeWorker.answer = ({ id }) => ({ type: "failed", id, message: "no wasm" });
  await expect(client.open()).rejects.toThrow("no wasm");
  FakeWorker.answer = plain;
  await expect(client.open()).resolves.toMatchObject({ saved: null });
  expect(FakeWorker.made).toHaveLength(2);
});
