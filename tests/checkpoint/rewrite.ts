/**
 * @file `node rewrite.ts FROM TO`: reads a checkpoint folder with the page's code and writes it again
 * with the page's code. Prints what was read. test_browser.py compares the two folders.
 */
import { readCheckpoint, verify, writeCheckpoint } from "../../browser/src/checkpoint/checkpoint.ts";
import { filesIn, writeFiles } from "../wasm/folder.ts";

const [from, to] = process.argv.slice(2) as [string, string];
try {
  const checkpoint = await readCheckpoint(await filesIn(from));
  await verify(checkpoint);
  await writeFiles(to, writeCheckpoint(checkpoint, "the page"));
  console.log(JSON.stringify(checkpoint.info));
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
