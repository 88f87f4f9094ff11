/**
 * @file A GPU device with everything that can go wrong on it turned into errors, and its objects counted.
 *
 * WebGPU reports a mistake to an error scope or to `uncapturederror`, never to the call that made it: an
 * invalid submit is dropped in silence, and what it should have written keeps its old values.
 */
import type { Adapter } from "./adapter.ts";
import { DeviceLostError, GpuValidationError, OutOfMemoryError } from "./errors.ts";

/** What every kernel of shaders/ keeps to: WebGPU's defaults. */
const KERNEL_LIMITS = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeWorkgroupsPerDimension: 65535,
} as const;

/** What some kernels and the bench make use of, where the adapter has it. */
const OPTIONAL_FEATURES: GPUFeatureName[] = ["timestamp-query", "subgroups", "shader-f16"];

const SCOPES = ["validation", "out-of-memory", "internal"] as const;

export type ObjectKind = "buffer" | "pipeline" | "bindGroup" | "layout" | "module";

export interface DeviceLimits {
  maxBufferSize: number;
  maxStorageBufferBindingSize: number;
}

/** What decides how large a model may be: as much as there is. */
export function sizeLimits(adapter: GPUAdapter): DeviceLimits {
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  return { maxBufferSize, maxStorageBufferBindingSize };
}

/** The optional features that a device is opened with. */
export function usedFeatures(adapter: GPUAdapter): GPUFeatureName[] {
  return OPTIONAL_FEATURES.filter((feature) => adapter.features.has(feature));
}

function typedError(what: string, error: GPUError): Error {
  const text = `${what}: ${error.message}`;
  return error.constructor.name === "GPUOutOfMemoryError"
    ? new OutOfMemoryError(`the GPU has no memory for ${text}; choose a smaller model, batch or context`)
    : new GpuValidationError(text);
}

export class GpuDevice {
  readonly handle: GPUDevice;
  readonly identity: string;
  readonly vendor: string;
  readonly software: boolean;
  readonly limits: DeviceLimits;
  /** Objects alive on this device, by kind. */
  readonly live: Record<ObjectKind, number> = { buffer: 0, pipeline: 0, bindGroup: 0, layout: 0, module: 0 };
  #lost: DeviceLostError | null = null;
  #error: Error | null = null;
  #onLost: ((error: DeviceLostError) => void)[] = [];

  private constructor(adapter: Adapter, handle: GPUDevice) {
    this.handle = handle;
    this.identity = adapter.identity;
    this.vendor = adapter.vendor;
    this.software = adapter.software;
    this.limits = sizeLimits(adapter.handle);
    handle.addEventListener("uncapturederror", (event) => {
      this.#error ??= typedError("the GPU refused a command", event.error);
    });
    void handle.lost.then(({ reason, message }) => {
      this.#lost = new DeviceLostError(reason, message);
      for (const tell of this.#onLost) tell(this.#lost);
      this.#onLost = [];
    });
  }

  /** Throws where the adapter lacks what the kernels need, or gives no device (it was used up). */
  static async open(adapter: Adapter): Promise<GpuDevice> {
    const requiredLimits = { ...KERNEL_LIMITS, ...sizeLimits(adapter.handle) };
    const requiredFeatures = usedFeatures(adapter.handle);
    try {
      return new GpuDevice(adapter, await adapter.handle.requestDevice({ requiredLimits, requiredFeatures }));
    } catch (error) {
      throw new GpuValidationError(`the GPU gives no device (${error instanceof Error ? error.message : String(error)})`);
    }
  }

  get features(): Iterable<string> {
    return this.handle.features;
  }

  get lost(): DeviceLostError | null {
    return this.#lost;
  }

  /** Throws what has gone wrong since the device was opened: nothing read from it may be believed. */
  check(): void {
    if (this.#lost) throw this.#lost;
    if (this.#error) throw this.#error;
  }

  /** Rejects once the device is lost, if it is before `work` is done: a lost device need not answer. */
  async orLost<T>(work: Promise<T>): Promise<T> {
    this.check();
    let forget = (): void => undefined;
    const lost = new Promise<never>((_resolve, reject) => {
      this.#onLost.push(reject);
      forget = () => void (this.#onLost = this.#onLost.filter((tell) => tell !== reject));
    });
    try {
      return await Promise.race([work, lost]);
    } catch (error) {
      // What a lost device's own methods reject with names no loss; the promise `lost` may come a moment later.
      if (error instanceof DOMException) await Promise.race([lost, settle()]);
      throw error;
    } finally {
      forget();
    }
  }

  /** Runs `work`, which must not wait for anything, and throws what the GPU says of it. */
  async scoped<T>(what: string, work: () => T): Promise<T> {
    this.check();
    for (const scope of SCOPES) this.handle.pushErrorScope(scope);
    let result: T;
    let errors: Promise<(GPUError | null)[]>;
    try {
      result = work();
    } finally {
      errors = Promise.all(SCOPES.map(() => this.handle.popErrorScope()));
      errors.catch(() => undefined);
    }
    const error = (await this.orLost(errors)).find((found) => found !== null);
    if (error) throw typedError(what, error);
    return result;
  }

  createBuffer(label: string, size: number, usage: GPUBufferUsageFlags): GPUBuffer {
    this.live.buffer++;
    return this.handle.createBuffer({ label, size, usage });
  }

  destroyBuffer(buffer: GPUBuffer): void {
    this.live.buffer--;
    buffer.destroy();
  }

  /** Gives back the device with all that is on it. */
  destroy(): void {
    this.handle.destroy();
  }
}

const SETTLE_MS = 1000;

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
