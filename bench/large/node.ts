/**
 * @file large.ts in Node: `node bench/large/node.ts FOLDER`; a line of JSON in, {do, ...job}, a line out.
 */
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { messageOf } from "../../browser/src/core/index.ts";
import { filesIn, writeFiles } from "../../tests/wasm/folder.ts";
import { Large, type Job } from "./large.ts";

const folder = process.argv[2]!;
const large = new Large(new URL("../../browser/public/wasm/", import.meta.url).href, {
  write: (files) => writeFiles(folder, files),
  read: () => filesIn(folder),
  clear: () => Promise.resolve(rmSync(folder, { recursive: true })),
});

for await (const line of createInterface({ input: process.stdin })) {
  const { do: phase, ...job } = JSON.parse(line) as Job & { do: "refuse" | "open" | "train" | "save" | "load" | "close" };
  let reply: unknown;
  try {
    reply = { result: await large[phase](job) };
  } catch (error) {
    reply = { error: messageOf(error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
process.exit(0);
