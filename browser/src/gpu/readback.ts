/**
 * @file Reading from the GPU through buffers that are made once: one for whole tensors, in pieces, and a
 * ring of small ones for what a step leaves, which is read while later steps run.
 */
import { GpuValidationError } from "./errors.ts";
import type { GpuDevice } from "./device.ts";

const MAP_READ = 0x1;
const COPY_TARGET = 0x8;
/** GPUMapMode.READ. */
const READ = 1;
const LARGEST_PIECE = 16 * 2 ** 20;
/** Late reads that may be under way at once. */
export const RING_SLOTS = 4;
const SLOT_BYTES = 512;

interface Source {
  source: GPUBuffer;
  offset: number;
  bytes: number;
}

export class Readback {
  readonly #device: GpuDevice;
  readonly #staging: GPUBuffer;
  readonly #free: GPUBuffer[];
  readonly buffers: GPUBuffer[];
  /** The staging buffer takes one read at a time. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(device: GpuDevice, staging: GPUBuffer, ring: GPUBuffer[]) {
    this.#device = device;
    this.#staging = staging;
    this.#free = [...ring];
    this.buffers = [staging, ...ring];
  }

  static async create(device: GpuDevice, largest: number): Promise<Readback> {
    return device.scoped("the buffers to read back", () => {
      const make = (label: string, bytes: number): GPUBuffer => device.createBuffer(label, bytes, MAP_READ | COPY_TARGET);
      const staging = make("staging", Math.max(4, Math.min(largest, LARGEST_PIECE)));
      return new Readback(device, staging, Array.from({ length: RING_SLOTS }, (_, i) => make(`late ${i}`, SLOT_BYTES)));
    });
  }

  read(source: GPUBuffer, offset: number, bytes: number): Promise<ArrayBuffer> {
    const turn = this.#last.then(() => this.#readPieces(source, offset, bytes));
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #readPieces(source: GPUBuffer, offset: number, bytes: number): Promise<ArrayBuffer> {
    const whole = new Uint8Array(bytes);
    for (let done = 0; done < bytes; done += this.#staging.size) {
      const piece = Math.min(bytes - done, this.#staging.size);
      whole.set(await this.#take(this.#staging, [{ source, offset: offset + done, bytes: piece }]), done);
    }
    this.#device.check();
    return whole.buffer;
  }

  async readLate(sources: Source[]): Promise<ArrayBuffer[]> {
    const slot = this.#free.pop();
    if (!slot) throw new GpuValidationError(`${RING_SLOTS + 1} late reads at once; the ring has ${RING_SLOTS} slots`);
    const bytes = await this.#take(slot, sources);
    this.#free.push(slot);
    this.#device.check();
    let offset = 0;
    return sources.map((source) => bytes.slice(offset, (offset += source.bytes)).buffer);
  }

  /** Copies some ranges one after the other into a staging buffer, maps it, and gives its bytes. */
  async #take(staging: GPUBuffer, sources: Source[]): Promise<Uint8Array<ArrayBuffer>> {
    this.#device.check();
    const { handle } = this.#device;
    const encoder = handle.createCommandEncoder({ label: "read back" });
    let total = 0;
    for (const { source, offset, bytes } of sources) {
      encoder.copyBufferToBuffer(source, offset, staging, total, bytes);
      total += bytes;
    }
    handle.queue.submit([encoder.finish()]);
    await this.#device.orLost(staging.mapAsync(READ, 0, total));
    const bytes = new Uint8Array(staging.getMappedRange(0, total)).slice();
    staging.unmap();
    return bytes;
  }
}
