/**
 * @file Which GPU there is, and in one sentence why there is none to train on.
 */

export interface Adapter {
  handle: GPUAdapter;
  /** Vendor, architecture, device and driver as far as the browser tells; a check's result is kept under it. */
  identity: string;
  /** "nvidia", "apple", ...; "" where the browser does not tell. */
  vendor: string;
  /** A program on the CPU, slower than the WASM builds. */
  software: boolean;
}

export type Obstacle = "no-api" | "no-adapter" | "software" | "failed-check";

const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b/i;

/** The sentence for each obstacle; `detail` is the adapter's name, or what the check found. */
export function obstacleSentence(obstacle: Obstacle, detail = ""): string {
  switch (obstacle) {
    case "no-api":
      return (
        "This browser gives the page no WebGPU, so it trains on the CPU. Current Chrome, Edge, Safari and Firefox have it " +
        "on most systems; it needs HTTPS or localhost."
      );
    case "no-adapter":
      return (
        "This browser has WebGPU but found no GPU that it lets a page use, so it trains on the CPU. " +
        "Its driver may be missing or blocked; the browser's own GPU page (chrome://gpu, about:support) says why."
      );
    case "software":
      return (
        `The only GPU here is a program on the CPU (${detail}), slower than WASM, so the page trains on the CPU. ` +
        "It can still be chosen, to see that it computes the same."
      );
    case "failed-check":
      return (
        `This GPU failed the page's check of its arithmetic, so the page trains on the CPU: ${detail}. ` +
        "A newer driver may help."
      );
  }
}

function describe(info: GPUAdapterInfo): string {
  const parts = [info.vendor, info.architecture, info.device, info.description].filter((part) => part !== "");
  return parts.length > 0 ? parts.join(" ") : "a GPU that this browser does not name";
}

/** WebGPU's normalized identifier string; what is none is not passed on. */
const IDENTIFIER = /^[a-z0-9]+(-[a-z0-9]+)*$/;

/** The browser's best adapter, or the obstacle. `gpu` is navigator.gpu, which types call always there. */
export async function findAdapter(gpu: GPU | undefined): Promise<Adapter | Obstacle> {
  if (!gpu) return "no-api";
  // Null where there is none; some browsers reject instead.
  const handle = await gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!handle) return "no-adapter";
  const { info } = handle;
  const old = handle as { isFallbackAdapter?: boolean };
  const identity = describe(info);
  const software = (info.isFallbackAdapter ?? old.isFallbackAdapter ?? false) || SOFTWARE.test(identity);
  const vendor = IDENTIFIER.test(info.vendor) ? info.vendor : "";
  return { handle, identity, vendor, software };
}
