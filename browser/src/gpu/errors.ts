/** @file What can go wrong on a GPU, as errors that a caller can tell apart. */
import { TabgptError } from "../core/errors.ts";

/** The device is gone and all that it held; `reason` is WebGPU's: "destroyed" or "unknown". */
export class DeviceLostError extends TabgptError {
  override name = "DeviceLostError";
  readonly reason: string;

  constructor(reason: string, message: string) {
    super(`the GPU was lost (${message.trim().replace(/\.$/, "") || reason})`);
    this.reason = reason;
  }
}

/** The device has no room for a plan. */
export class OutOfMemoryError extends TabgptError {
  override name = "OutOfMemoryError";
}

/** The browser refused what a plan or a shader asked of it: a mistake of ours, never of the person. */
export class GpuValidationError extends TabgptError {
  override name = "GpuValidationError";
}
