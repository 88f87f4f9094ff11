/**
 * @file bench/large/large.ts in a tab; its disk is the page's own store, the origin's private files.
 */
import { openStore } from "../../browser/src/checkpoint/store.ts";
import { Large, type Job } from "../large/large.ts";
import { answer } from "./answer.ts";

const store = openStore(null, () => undefined);
const large = new Large(new URL("wasm/", self.location.href).href, {
  write: async (files) => {
    if (!(await store).durable) throw new Error("this profile keeps no private files");
    await (await store).write(files, null);
  },
  read: async () => (await store).read(),
  clear: async () => (await store).clear(),
});

answer<Job & { do: "refuse" | "open" | "train" | "save" | "load" | "close" }>(({ do: phase, ...job }) => large[phase](job));
