import { afterEach, expect, test, vi } from "vitest";
import type { FileSource } from "../src/checkpoint/safetensors.ts";
import { openStore, type Kept, type RunStore } from "../src/checkpoint/store.ts";
import { corpusFromText } from "../src/corpus.ts";
import { FakeDisk } from "./fake_files.ts";

afterEach(() => vi.unstubAllGlobals());

const bytes = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(length).fill(1);
const source = (name: string, size: number): FileSource => ({ name, size, parts: [bytes(size)] });
const run = (step: number, model = 20): FileSource[] => [
  source(`optimizer-00000${step}.safetensors`, 2 * model),
  source("config.json", 2),
  source("metrics.jsonl", step),
  source("model.safetensors", model),
];
const CORPUS = corpusFromText("x.txt", "to be or not to be");

function onDisk(disk = new FakeDisk()) {
  vi.stubGlobal("navigator", disk.navigator);
  return { disk, store: openStore(null, () => undefined) };
}

test("a save replaces the last one whole, and leaves nothing of it behind", async () => {
  const { disk, store } = onDisk();
  const corpus = await CORPUS;
  await (await store).write(run(1), corpus);
  const bare = run(2).filter(({ name }) => /config|model/.test(name));
  await (await store).write(bare, null);
  expect(await disk.sizes()).toEqual({
    [`tabgpt/corpus/${corpus.sha256}.txt`]: 18,
    "tabgpt/saves/2/config.json": 2,
    "tabgpt/saves/2/model.safetensors": 20,
  });
});

test("a full disk costs the save, not the run that was there, and nothing is left to fill it further", async () => {
  const { disk, store } = onDisk();
  await (await store).write(run(1), null);
  const before = await disk.sizes();
  disk.free = 55; // the optimizer's 40 and little more
  await expect((await store).write(run(2), null)).rejects.toThrow("the disk is full");
  expect(disk.aborted).toBe(1);
  expect(await disk.sizes()).toEqual(before);
});

test("a tab killed at any moment of a save leaves one whole save, and the next tab clears up", async () => {
  const names = run(1).map(({ name }) => name);
  const corpus = await CORPUS;
  for (let moment = 0; ; moment++) {
    const { disk, store } = onDisk();
    await (await store).write(run(1), corpus);
    disk.killAfter(moment);
    const killed = await Promise.race([(await store).write(run(2), corpus).then(() => false), disk.killed.then(() => true)]);
    disk.revive();
    const after = (await openStore(null, () => undefined)) as RunStore;
    const found = await after.list();
    const step = found.has("optimizer-000002.safetensors") ? 2 : 1;
    expect([...found.keys()]).toEqual(names.map((name) => name.replace("000001", `00000${step}`)));
    expect(found.get("metrics.jsonl")!.size).toBe(step);
    await after.tidy(corpus.sha256);
    expect(Object.keys(await disk.sizes())).toHaveLength(names.length + 1);
    if (!killed) {
      expect(moment).toBeGreaterThan(10);
      expect(step).toBe(2);
      return;
    }
  }
});

test("a run that was deleted does not come back, nor does one that another run's kill outlived", async () => {
  const { disk, store } = onDisk();
  await (await store).write(run(5), await CORPUS);
  await (await store).clear();
  expect(await disk.sizes()).toEqual({});
  await (await store).write(run(1), null);
  disk.killAfter(4); // a new run's first save, of the same step: its moments are not the old model's
  void (await store).write(run(1, 30), null);
  await disk.killed;
  disk.revive();
  expect((await (await store).list()).get("optimizer-000001.safetensors")!.size).toBe(40);
});

test("what a person clears in the browser's settings is written anew", async () => {
  const { disk, store } = onDisk();
  const corpus = await CORPUS;
  await (await store).write(run(1), corpus);
  await disk.root.removeEntry("tabgpt");
  await (await store).write(run(2), corpus);
  expect(await (await store).hasCorpus(corpus.sha256)).toBe(true);
  expect((await (await store).list()).size).toBe(4);
});

test("a disk that was full from the start shows no run, and keeps a text once there is room", async () => {
  const { disk, store } = onDisk();
  const corpus = await CORPUS;
  disk.free = 0;
  await expect((await store).write(run(1), corpus)).rejects.toThrow("the disk is full");
  expect([...(await (await store).list()).keys()]).toEqual([]);
  expect(await (await store).hasCorpus(corpus.sha256)).toBe(false);
  disk.free = Infinity;
  await (await store).write(run(1), corpus);
  expect(await (await store).readCorpus(corpus.sha256)).toEqual(corpus.raw);
});

test("a file that a killed tab left empty is not a run", async () => {
  const { disk, store } = onDisk();
  const folder = await disk.root.getDirectoryHandle("tabgpt");
  await (await (await folder.getDirectoryHandle("saves")).getDirectoryHandle("1")).getFileHandle("model.safetensors");
  expect([...(await (await store).list()).keys()]).toEqual([]);
});

test("without files the run is kept in memory, and the next worker takes it over", async () => {
  vi.stubGlobal("navigator", { storage: { getDirectory: () => Promise.reject(new DOMException("no", "SecurityError")) } });
  const corpus = await CORPUS;
  let kept: Kept | null = null;
  const first = await openStore(null, (now) => (kept = now));
  expect(first.durable).toBe(false);
  await first.write(run(1), corpus);
  const second = await openStore(kept, () => undefined);
  expect([...(await second.read())].map(([name, content]) => [name, content.size])).toEqual([
    ["optimizer-000001.safetensors", 40], ["config.json", 2], ["metrics.jsonl", 1], ["model.safetensors", 20],
  ]); // prettier-ignore
  expect(await second.readCorpus(corpus.sha256)).toEqual(corpus.raw);
  await second.clear();
  expect(await second.hasCorpus(corpus.sha256)).toBe(false);
});

test("a browser that has no navigator.storage at all is such a browser", async () => {
  vi.stubGlobal("navigator", {});
  expect((await openStore(null, () => undefined)).durable).toBe(false);
});
