/**
 * @file Python in the tab: Pyodide, numpy and tabgpt from the site itself, and the cells that a person runs.
 * One interpreter lives as long as this worker; names stay from cell to cell.
 */
import type { Packages, PythonEvent, PythonRequest } from "./protocol.ts";

/** The part of Pyodide's interface that is used here. */
interface Pyodide {
  loadPackage(wheels: string[], options: { messageCallback: (text: string) => void }): Promise<unknown>;
  runPython(code: string, options?: { filename: string }): unknown;
  setStdout(options: { batched: (line: string) => void }): void;
  setStderr(options: { batched: (line: string) => void }): void;
  setInterruptBuffer(buffer: Uint8Array): void;
  FS: { writeFile(path: string, data: Uint8Array): void };
}

/** The name tabgpt_core is the core by itself: `import tabgpt` needs numpy. */
const CORE_ALONE = `
import importlib.util, sys
from importlib.metadata import distribution
_path = next(str(f.locate()) for f in distribution("tabgpt").files if f.name.startswith("_core."))
_spec = importlib.util.spec_from_file_location("tabgpt._core", _path)
sys.modules["tabgpt_core"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["tabgpt_core"])
del importlib, distribution, _path, _spec
`;
/** The command line writes for a terminal of this many columns. */
const HOME = "/home/pyodide";
const ENVIRONMENT = { HOME, TABGPT_CACHE: HOME, COLUMNS: "80", NO_COLOR: "1" };

const send = (event: PythonEvent): void => globalThis.postMessage(event);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const print = (line: string): void => send({ event: "output", text: `${line}\n` });

async function fetched(url: URL): Promise<Response> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname}: the server answered ${response.status}`);
  return response;
}

async function open(siteUrl: string, interrupt: Uint8Array | null): Promise<Pyodide> {
  const base = new URL("python/", siteUrl);
  send({ event: "loading", what: "what there is" });
  const packages = (await (await fetched(new URL("packages.json", base))).json()) as Packages;
  send({ event: "loading", what: `Python ${packages.python}` });
  const indexURL = new URL("runtime/", base).href;
  const { loadPyodide } = (await import(/* @vite-ignore */ `${indexURL}pyodide.mjs`)) as {
    loadPyodide(options: { indexURL: string; env: Record<string, string> }): Promise<Pyodide>;
  };
  const python = await loadPyodide({ indexURL, env: ENVIRONMENT });
  send({ event: "loading", what: Object.keys(packages.packages).join(", ") });
  const wheels = packages.wheels.map((wheel) => new URL(`wheels/${wheel}`, base).href);
  await python.loadPackage(wheels, { messageCallback: () => {} });
  python.setStdout({ batched: print });
  python.setStderr({ batched: print });
  const corpus = await (await fetched(new URL("corpus/shakespeare.txt", siteUrl))).arrayBuffer();
  python.FS.writeFile(`${HOME}/shakespeare.txt`, new Uint8Array(corpus));
  if (interrupt !== null) python.setInterruptBuffer(interrupt);
  python.runPython(CORE_ALONE);
  send({ event: "ready", packages });
  return python;
}

/** A traceback begins in Pyodide's own files, which say nothing of the cell. */
function traceback(error: unknown): string {
  const text = messageOf(error);
  const cell = text.indexOf('  File "<cell>"');
  return cell < 0 ? text : `Traceback (most recent call last):\n${text.slice(cell)}`;
}

/** Not on Python's event loop, which would report an interrupt a second time, in the console. */
function run(python: Pyodide, code: string): void {
  try {
    const value = python.runPython(code, { filename: "<cell>" });
    if (value !== undefined) print(String(value));
    send({ event: "done", error: false });
  } catch (error) {
    print(traceback(error).trimEnd());
    send({ event: "done", error: true });
  }
}

let opened: Promise<Pyodide> | null = null;

globalThis.onmessage = ({ data }: MessageEvent<PythonRequest>) => {
  if (data.call === "open") opened = open(data.siteUrl, data.interrupt);
  const task = opened!.then((python) => (data.call === "run" ? run(python, data.code) : undefined));
  task.catch((error: unknown) => send({ event: "failed", message: messageOf(error) }));
};
