/** @file What the page offers to run, as text; each is a program of its own. */
import command from "./examples/command.py?raw";
import compare from "./examples/compare.py?raw";
import core from "./examples/core.py?raw";

export interface Example {
  id: string;
  title: string;
  code: string;
  numpy: boolean;
}

export const EXAMPLES: readonly Example[] = [
  { id: "compare", title: "The oracle against the core", code: compare, numpy: true },
  { id: "command", title: "tabgpt train, in the tab", code: command, numpy: true },
  { id: "core", title: "The core without numpy", code: core, numpy: false },
];
