/**
 * @file `node rewrite.ts FROM TO`: reads a checkpoint folder with the page's code and writes it again
 * with the page's code. Prints what was read. test_browser.py compares the two folders.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { readCheckpoint, writeCheckpoint, type Files } from "../../browser/src/checkpoint/checkpoint.ts";

const [from, to] = process.argv.slice(2) as [string, string];
const files: Files = new Map();
for (const name of readdirSync(from)) files.set(name, new Uint8Array(readFileSync(`${from}/${name}`)));
try {
  const checkpoint = readCheckpoint(files);
  mkdirSync(to, { recursive: true });
  for (const { name, parts } of writeCheckpoint(checkpoint, "the page")) {
    writeFileSync(`${to}/${name}`, Buffer.concat(parts));
  }
  console.log(JSON.stringify(checkpoint.info));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
