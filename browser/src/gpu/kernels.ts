/**
 * @file A choice between the core's kernels, in the words that it reads: "matmul=vec4 attention=flash". What
 * a choice leaves out is the core's own.
 */
import type { Variant } from "./handle.ts";

/** By family. */
export function choiceText(kernels: ReadonlyMap<string, string>): string {
  return [...kernels].map(([family, name]) => `${family}=${name}`).join(" ");
}

/** A choice for a device that has these features: without them the core refuses what needs them. */
export function withFeatures(choice: string, features: Iterable<string>): string {
  return [choice, ...[...features].map((feature) => `feature=${feature}`)].filter((word) => word !== "").join(" ");
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
