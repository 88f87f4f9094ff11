import { afterEach, expect, test, vi } from "vitest";

/** Older engines: WebAssembly.Memory that takes one spelling, and what it makes of the others. */
class Engine {
  static real = WebAssembly.Memory;
  readonly asked: unknown[] = [];

  constructor(accepts: (descriptor: Record<string, unknown>) => boolean) {
    const { asked } = this;
    vi.stubGlobal("WebAssembly", {
      Module: WebAssembly.Module,
      Instance: WebAssembly.Instance,
      Memory: function (descriptor: Record<string, unknown>) {
        asked.push(descriptor);
        const { initial, maximum, shared } = descriptor;
        if (accepts(descriptor)) return new Engine.real({ initial: BigInt(initial as number), maximum: BigInt(maximum as number), shared, address: "i64" } as never);
        return new Engine.real({ initial, maximum, shared } as never); // a key that is not known is ignored
      },
    });
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** Without what an earlier test found. */
async function found(): Promise<unknown> {
  const { memory64 } = await import("../src/core/memory.ts");
  return memory64();
}

test("the older spelling is found, with page counts of either kind", async () => {
  new Engine(({ index, initial }) => index === "i64" && typeof initial === "bigint");
  expect(await found()).toEqual({ plain: "index", shared: "index" });
  vi.resetModules();
  new Engine(({ index, initial }) => index === "i64" && typeof initial === "number");
  expect(await found()).toEqual({ plain: "index", shared: "index" });
});

test("an engine may share no 64-bit memory", async () => {
  new Engine(({ address, shared }) => address === "i64" && !shared);
  expect(await found()).toEqual({ plain: "address", shared: "" });
});

test("a memory that is silently 32-bit is none", async () => {
  const engine = new Engine(() => false);
  expect(await found()).toEqual({ plain: "", shared: "" });
  expect(engine.asked).toContainEqual({ initial: 1, maximum: 1, shared: false, index: "i64" });
});
