/**
 * @file How long work on a device takes: by the GPU's own timestamps where it has them, by the wall clock
 * always. Browsers round both, so their quanta are measured.
 */
import type { GpuDevice } from "./device.ts";

/** Bits of GPUBufferUsage; the global is not there in every Node. */
const MAP_READ = 0x1;
const COPY_SOURCE = 0x4;
const COPY_TARGET = 0x8;
const QUERY_RESOLVE = 0x200;
/** GPUMapMode.READ. */
const READ = 1;
/** A begin and an end, 8 bytes each. */
const STAMPS = 2;
const STAMP_BYTES = 16;
const TICK_S = 1e-9;

export interface Times {
  /** Seconds from the first pass's begin to the last one's end; null without timestamps, or where they ran backwards. */
  gpu: number | null;
  /** Seconds from the submit until the page heard that it was done. */
  wall: number;
}

interface Stamps {
  set: GPUQuerySet;
  resolved: GPUBuffer;
  mapped: GPUBuffer;
}

export class GpuClock {
  readonly #device: GpuDevice;
  readonly #stamps: Stamps | null;
  /** Greatest common divisor of all ticks that were seen. */
  #tick = 0n;

  private constructor(device: GpuDevice, stamps: Stamps | null) {
    this.#device = device;
    this.#stamps = stamps;
  }

  static async create(device: GpuDevice): Promise<GpuClock> {
    if (!device.handle.features.has("timestamp-query")) return new GpuClock(device, null);
    const stamps = await device.scoped("timestamps", (): Stamps => ({
      set: device.handle.createQuerySet({ label: "stamps", type: "timestamp", count: STAMPS }),
      resolved: device.createBuffer("stamps", STAMP_BYTES, QUERY_RESOLVE | COPY_SOURCE),
      mapped: device.createBuffer("stamps to read", STAMP_BYTES, MAP_READ | COPY_TARGET),
    }));
    return new GpuClock(device, stamps);
  }

  get hasStamps(): boolean {
    return this.#stamps !== null;
  }

  /** Seconds that all timestamps seen so far are multiples of; null before the first, or without any. */
  get quantum(): number | null {
    return this.#tick === 0n ? null : Number(this.#tick) * TICK_S;
  }

  /** Times one submit that `work` makes, on a device that has nothing else to do. */
  async time(work: (stamps: GPUQuerySet | null) => void): Promise<Times> {
    const { queue } = this.#device.handle;
    const before = performance.now();
    work(this.#stamps?.set ?? null);
    await this.#device.orLost(queue.onSubmittedWorkDone());
    const wall = (performance.now() - before) / 1000;
    this.#device.check();
    return { gpu: this.#stamps ? await this.#read(this.#stamps) : null, wall };
  }

  async #read({ set, resolved, mapped }: Stamps): Promise<number | null> {
    const { handle } = this.#device;
    const encoder = handle.createCommandEncoder({ label: "stamps" });
    encoder.resolveQuerySet(set, 0, STAMPS, resolved, 0);
    encoder.copyBufferToBuffer(resolved, 0, mapped, 0, STAMP_BYTES);
    handle.queue.submit([encoder.finish()]);
    await this.#device.orLost(mapped.mapAsync(READ));
    const [begin, end] = new BigUint64Array(mapped.getMappedRange().slice(0)) as unknown as [bigint, bigint];
    mapped.unmap();
    this.#tick = divisor(divisor(this.#tick, begin), end);
    return end > begin ? Number(end - begin) * TICK_S : null;
  }

  destroy(): void {
    if (!this.#stamps) return;
    this.#stamps.set.destroy();
    this.#device.destroyBuffer(this.#stamps.resolved);
    this.#device.destroyBuffer(this.#stamps.mapped);
  }
}

/** Greatest common divisor; of 0 and n it is n. */
function divisor(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

/** Smallest step of performance.now() that shows, in seconds. */
export function wallQuantum(): number {
  let smallest = Infinity;
  for (let i = 0; i < 50; i++) {
    const before = performance.now();
    let now = before;
    while (now === before) now = performance.now();
    smallest = Math.min(smallest, now - before);
  }
  return smallest / 1000;
}
