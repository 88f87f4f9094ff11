/**
 * @file The GPU that the page trains on: its device is opened when it is first needed, and anew after a loss.
 */
import { findAdapter, obstacleSentence, type Adapter, type Obstacle } from "./adapter.ts";
import { GpuDevice, sizeLimits, usedFeatures, type DeviceLimits } from "./device.ts";
import { GpuValidationError } from "./errors.ts";
import { Pipelines } from "./pipelines.ts";
import type { ShaderSources } from "./shaders.ts";

/** A GPU process that died is there again within this. */
const PATIENCE_MS = 3000;
const RETRY_MS = 250;

export interface OpenDevice {
  device: GpuDevice;
  pipelines: Pipelines;
  sources: ShaderSources;
  /** Hears of each pipeline of a session as it is compiled. */
  onPipeline?: (done: number, total: number) => void;
}

export class Gpu {
  readonly identity: string;
  readonly vendor: string;
  readonly software: boolean;
  readonly limits: DeviceLimits;
  readonly features: readonly string[];
  readonly #api: GPU | undefined;
  readonly #sources: ShaderSources;
  #open: OpenDevice | null = null;

  private constructor(api: GPU | undefined, sources: ShaderSources, { handle, identity, vendor, software }: Adapter) {
    this.#api = api;
    this.#sources = sources;
    this.identity = identity;
    this.vendor = vendor;
    this.software = software;
    this.limits = sizeLimits(handle);
    this.features = usedFeatures(handle);
  }

  static async find(api: GPU | undefined, sources: ShaderSources): Promise<Gpu | Obstacle> {
    const adapter = await findAdapter(api);
    return typeof adapter === "string" ? adapter : new Gpu(api, sources, adapter);
  }

  /** The device and its compiled pipelines. Throws TabgptError where none can be had, after some tries. */
  async open(): Promise<OpenDevice> {
    if (this.#open && !this.#open.device.lost) return this.#open;
    const before = performance.now();
    for (;;) {
      // An adapter gives one device, so each try asks for a new one.
      const adapter = await findAdapter(this.#api);
      try {
        if (typeof adapter === "string") throw new GpuValidationError(obstacleSentence(adapter).replace(/\.$/, ""));
        const device = await GpuDevice.open(adapter);
        this.#open = { device, pipelines: new Pipelines(device), sources: this.#sources };
        return this.#open;
      } catch (error) {
        if (performance.now() - before > PATIENCE_MS) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  destroy(): void {
    this.#open?.device.destroy();
    this.#open = null;
  }
}
