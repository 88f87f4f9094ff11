/**
 * @file What a .wgsl file declares, read from its text. The file is the one place that says which
 * binding a kernel has and how it touches it; plans are compared with it before anything is created.
 */
import { TabgptError } from "../core/errors.ts";

/** How a kernel touches a binding; the same word in the plan and in `var<...>`. */
export type Access = "uniform" | "read" | "read_write";

export interface Binding {
  name: string;
  access: Access;
}

export interface Kernel {
  name: string;
  /** The whole WGSL text, extensions enabled and includes put in. */
  code: string;
  /** In the order of their numbers, which start at 0 and leave no gap. */
  bindings: Binding[];
  overrides: string[];
  /** What a device must have for it, as WebGPU calls it. */
  features: GPUFeatureName[];
}

/** Texts by file name without ".wgsl". */
export type ShaderSources = ReadonlyMap<string, string>;

const INCLUDE = /^\/\/! include (\w+)\.wgsl$/gm;
const ENABLE = /^\/\/! enable (\w+)$/gm;
const BINDING = /^@group\(0\) @binding\((\d+)\) var<(uniform|storage, read_write|storage, read)> (\w+):/gm;
const ANY_BINDING = /^[^/\n]*@binding\(/gm;
const OVERRIDE = /^override (\w+):/gm;
/** Extension of the language -> the device's feature. */
const FEATURES: ReadonlyMap<string, GPUFeatureName> = new Map([
  ["f16", "shader-f16"],
  ["subgroups", "subgroups"],
]);

/** A file included by two others is put in once, where it comes first. */
function expand(name: string, sources: ShaderSources, seen: Set<string>): string {
  const text = sources.get(name);
  if (text === undefined) throw new TabgptError(`there is no shader "${name}.wgsl"`);
  seen.add(name);
  return text.replace(INCLUDE, (_line, included: string) => (seen.has(included) ? "" : expand(included, sources, seen)));
}

/** Reads a kernel's declarations. Throws TabgptError for a file that is not there or not in canonical form. */
export function readKernel(name: string, sources: ShaderSources): Kernel {
  const code = expand(name, sources, new Set());
  const found = [...code.matchAll(BINDING)];
  const declared = [...code.matchAll(ANY_BINDING)].length;
  if (declared !== found.length) {
    throw new TabgptError(`${name}.wgsl: ${declared - found.length} of ${declared} bindings are not in canonical form`);
  }
  const bindings = found.map(([, number, storage, variable], i): Binding => {
    if (Number(number) !== i) throw new TabgptError(`${name}.wgsl: binding ${number} (${variable}) stands where ${i} is due`);
    return { name: variable!, access: storage!.replace("storage, ", "") as Access };
  });
  const extensions = Array.from(code.matchAll(ENABLE), ([, extension]) => extension!);
  const features = extensions.map((extension) => {
    const feature = FEATURES.get(extension);
    if (!feature) throw new TabgptError(`${name}.wgsl enables "${extension}", not one of ${[...FEATURES.keys()].join(", ")}`);
    return feature;
  });
  const enabled = extensions.map((extension) => `enable ${extension};\n`).join("") + code;
  return { name, code: enabled, bindings, overrides: Array.from(code.matchAll(OVERRIDE), ([, override]) => override!), features };
}
