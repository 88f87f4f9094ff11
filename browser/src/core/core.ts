/**
 * @file One instance of a WASM build: its memory, its exports, and how text and arrays cross.
 */
import { bindAbi, type Abi } from "./abi.ts";
import type { Build } from "./builds.ts";
import { messageOf, TabgptError } from "./errors.ts";
import { makeMemory, maximumBytes } from "./memory.ts";

export interface CoreOptions {
  build: Build;
  /** Folder that holds `<build.name>/tabgpt.mjs`, ending in a slash. */
  baseUrl: string;
  /** Bytes of memory at the start. */
  bytes: number;
  /** Bytes that it may grow to; none beyond `bytes` by default, since a plan says what a run takes. */
  maximum?: number;
  /** Threads a session may use; workers for all but the first are started before this resolves. */
  threads: number;
}

type Factory = (options: Record<string, unknown>) => Promise<Record<string, unknown>>;

const TERMINATOR = 1;

export class Core {
  readonly build: Build;
  readonly threads: number;
  readonly abi: Abi;
  readonly memory: WebAssembly.Memory;

  private constructor(options: CoreOptions, memory: WebAssembly.Memory, abi: Abi) {
    this.build = options.build;
    this.threads = options.threads;
    this.memory = memory;
    this.abi = abi;
  }

  /** Fetches and instantiates a build. Throws TabgptError where memory or module cannot be had. */
  static async load(options: CoreOptions): Promise<Core> {
    const { build, threads } = options;
    const limit = maximumBytes(build.address);
    if (options.bytes > limit) {
      throw new TabgptError(
        `this run needs ${gib(options.bytes)} GiB and build "${build.name}" reaches ${gib(limit)} GiB; ` +
          `choose a smaller model, batch or context`,
      );
    }
    let memory: WebAssembly.Memory;
    try {
      memory = makeMemory(options.bytes, options.maximum ?? options.bytes, build.threads, build.address);
    } catch (error) {
      throw new TabgptError(
        `the browser refused ${gib(options.bytes)} GiB of memory (${messageOf(error)}); ` +
          `close other tabs or choose a smaller model`,
      );
    }
    const url = new URL(`${build.name}/tabgpt.mjs`, options.baseUrl).href;
    let factory: Factory;
    try {
      ({ default: factory } = (await import(/* @vite-ignore */ url)) as { default: Factory });
    } catch (error) {
      throw new TabgptError(`cannot load the WASM build "${build.name}" from ${url}: ${messageOf(error)}`);
    }
    let module: Record<string, unknown>;
    try {
      module = await factory({
        wasmMemory: memory,
        INITIAL_MEMORY: memory.buffer.byteLength,
        pthreadPoolSize: build.threads ? Math.max(0, threads - 1) : 0,
      });
    } catch (error) {
      const wasm = url.replace(/mjs$/, "wasm");
      throw new TabgptError(
        `the WASM build "${build.name}" did not start (${messageOf(error)}); ` +
          `reload the page or choose another build, and see whether its server has ${wasm}`,
      );
    }
    return new Core(options, memory, bindAbi(module, build.address));
  }

  get isa(): string {
    return this.text(this.abi.tabgpt_isa());
  }

  get version(): string {
    return this.text(this.abi.tabgpt_version());
  }

  /** Bytes of linear memory; a view lives until the memory grows, so never keep one. */
  bytes(pointer: number, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, pointer, length);
  }

  floats(pointer: number, length: number): Float32Array {
    return new Float32Array(this.memory.buffer, pointer, length);
  }

  get memoryBytes(): number {
    return this.memory.buffer.byteLength;
  }

  /** Of these, what the core has allocated and not freed. */
  get heapBytes(): number {
    return this.abi.tabgpt_heap_bytes();
  }

  /** Reads C text at a pointer; "" for NULL. */
  text(pointer: number): string {
    if (pointer === 0) return "";
    const memory = new Uint8Array(this.memory.buffer);
    const end = memory.indexOf(0, pointer);
    // TextDecoder refuses views of shared memory: slice copies.
    return new TextDecoder().decode(memory.slice(pointer, end));
  }

  /** Throws the core's sentence. */
  fail(what: string): never {
    throw new TabgptError(this.text(this.abi.tabgpt_last_error()) || `${what} failed without a reason`);
  }

  /** Throws where a status is TABGPT_ERROR (negative). */
  check(status: number, what: string): number {
    return status < 0 ? this.fail(what) : status;
  }

  alloc(bytes: number): number {
    const pointer = this.abi.tabgpt_alloc(Math.max(bytes, TERMINATOR));
    if (pointer === 0) this.fail(`allocating ${bytes} bytes`);
    return pointer;
  }

  /** Runs `use` with `values` copied into WASM memory, and frees the copies whatever happens. */
  withArrays<R>(values: readonly (Uint32Array | Float32Array | Float64Array | string)[], use: (...pointers: number[]) => R): R {
    const pointers: number[] = [];
    try {
      for (const value of values) {
        const bytes =
          typeof value === "string"
            ? new TextEncoder().encode(`${value}\0`)
            : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
        const pointer = this.alloc(bytes.byteLength);
        pointers.push(pointer);
        this.bytes(pointer, bytes.byteLength).set(bytes);
      }
      return use(...pointers);
    } finally {
      for (const pointer of pointers) this.abi.tabgpt_free(pointer);
    }
  }

}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(2);
}
