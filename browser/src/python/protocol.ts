/** @file What the page /python and its worker say to each other. */

export type PythonRequest =
  | { call: "open"; siteUrl: string; interrupt: Uint8Array | null }
  | { call: "run"; code: string };

/** What `make pyodide` laid out: python/packages.json. */
export interface Packages {
  pyodide: string;
  python: string;
  /** Versions by name. */
  packages: Record<string, string>;
  wheels: string[];
}

export type PythonEvent =
  | { event: "loading"; what: string }
  | { event: "ready"; packages: Packages }
  | { event: "output"; text: string }
  | { event: "done"; error: boolean }
  | { event: "failed"; message: string };
