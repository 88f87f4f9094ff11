/**
 * @file The shaders' texts as the site carries them. Vite puts them in; Node reads the folder itself, and
 * so nothing but the worker imports this file.
 */
import type { ShaderSources } from "./shaders.ts";

const files: Record<string, string> = import.meta.glob("../../../shaders/*.wgsl", { query: "?raw", import: "default", eager: true });

export const SHADERS: ShaderSources = new Map(
  Object.entries(files).map(([path, text]) => [path.replace(/^.*\/|\.wgsl$/g, ""), text]),
);
