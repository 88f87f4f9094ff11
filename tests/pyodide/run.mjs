/**
 * @file Runs a Python file in Node's Pyodide, of the files that the page /python serves.
 *
 *   node run.mjs packages.json-folder package,package script.py [arguments]
 *
 * Standard input and output are this process's, byte by byte; the script sees the host's folders under /host.
 */
import { readFileSync, readSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, names, script, ...words] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(folder, "runtime", "pyodide.mjs")).href);
const { wheels } = JSON.parse(readFileSync(join(folder, "packages.json"), "utf8"));

/** Node may have made a pipe non-blocking: a full one, or an empty one, is then tried again a little later. */
function patiently(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

function writer(descriptor) {
  return {
    write(bytes) {
      for (let done = 0; done < bytes.length; ) done += patiently(() => writeSync(descriptor, bytes, done));
      return bytes.length;
    },
  };
}

const pyodide = await loadPyodide({ indexURL: join(folder, "runtime"), args: [script, ...words], env: { HOME: "/home/pyodide" } });
pyodide.setStdin({ read: (bytes) => patiently(() => readSync(0, bytes)) });
pyodide.setStdout(writer(1));
pyodide.setStderr(writer(2));
pyodide.mountNodeFS("/host", "/");
const wanted = names.split(",").map((name) => wheels.find((wheel) => wheel.startsWith(`${name}-`)) ?? name);
const quiet = { messageCallback: () => {} };
await pyodide.loadPackage(wanted.map((wheel) => join(folder, "wheels", wheel)), quiet);
const file = `/host${resolve(script)}`;
pyodide.globals.set("host_argv", pyodide.toPy([file, ...words]));
await pyodide.runPythonAsync("import runpy, sys; sys.argv = list(host_argv); runpy.run_path(sys.argv[0], run_name='__main__')");
