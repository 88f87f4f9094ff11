/**
 * @file A choice between the core's kernels, in the words that it reads: "matmul=vec4 attention=flash". What
 * a choice leaves out is the core's own.
 */
import type { Variant } from "./handle.ts";

/** By family. */
export function choiceText(kernels: ReadonlyMap<string, string>): string {
  return [...kernels].map(([family, name]) => `${family}=${name}`).join(" ");
}

/** What the core is told of a GPU. */
export interface Told {
  /** As WebGPU names it; "" where the browser does not tell. */
  vendor: string;
  /** Without them the core refuses what needs them. */
  features: Iterable<string>;
}

/** A choice on this GPU. A vendor that the choice names itself counts instead. */
export function onGpu(choice: string, { vendor, features }: Told): string {
  const words = [vendor && `vendor=${vendor}`, ...[...features].map((feature) => `feature=${feature}`), choice];
  return words.filter((word) => word !== "").join(" ");
}

/** Offered for training, in float32: what rounds to f16 is for those who ask for it by name. */
export function isAutomatic({ training, feature }: Variant): boolean {
  return training && feature !== "shader-f16";
}

/** Whether the core offers all of a choice for training, on a device with these features. */
export function isOffered(choice: string, variants: readonly Variant[], features: readonly string[]): boolean {
  return choice.split(" ").every((word) => {
    const variant = variants.find(({ family, name }) => `${family}=${name}` === word);
    return word === "" || (variant?.training === true && (variant.feature === "" || features.includes(variant.feature)));
  });
}
