"""Serves the core of a tab's Pyodide to pytest: the wire of native_worker.py, the tab behind it.

The page /python is open; its interpreter is one of our own, with native_worker.py as
a module, because the page itself runs cells and gives back text.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import native_worker
import numpy as np
from lab_browser import launch_chromium, serve_lab
from playwright.sync_api import Page
from pyodide_node import ROOT

ANSWER = """
import base64, json
import native_worker, numpy as np

def answer(request):
    call, args, data = json.loads(request)
    result = native_worker.serve(call, args, [base64.b64decode(item) for item in data])
    arrays = None
    if isinstance(result, list) and result and isinstance(result[0], np.ndarray):
        kinds = [(str(array.dtype), array.shape) for array in result]
        texts = [base64.b64encode(array.tobytes()).decode() for array in result]
        result, arrays = None, [[*kind, text] for kind, text in zip(kinds, texts)]
    return json.dumps([result, arrays])
"""
START = """
async ([module, answer]) => {
  const { loadPyodide } = await import(new URL("runtime/pyodide.mjs", location.href).href);
  const { wheels } = await (await fetch("packages.json")).json();
  const pyodide = await loadPyodide({ indexURL: new URL("runtime/", location.href).href });
  const wanted = wheels.filter((wheel) => /^(numpy|tabgpt)-/.test(wheel));
  await pyodide.loadPackage(wanted.map((wheel) => new URL(`wheels/${wheel}`, location.href).href));
  pyodide.FS.writeFile("native_worker.py", module);
  pyodide.runPython(answer);
  globalThis.answer = (request) => {
    try {
      return { reply: pyodide.globals.get("answer")(request) };
    } catch (error) {
      return { error: error.message };
    }
  };
}
"""


def answers(page: Page) -> Any:
    """native_worker's `serve`, by the tab."""

    def serve(call: str, args: dict[str, Any], data: list[bytes]) -> Any:
        request = json.dumps([call, args, [base64.b64encode(item).decode() for item in data]])
        got = page.evaluate("(request) => globalThis.answer(request)", request)
        if "error" in got:
            # the last line of a traceback: "tabgpt._core.TabgptError: what it says"
            raise RuntimeError(got["error"].strip().splitlines()[-1].partition(": ")[2])
        result, arrays = json.loads(got["reply"])
        if arrays is None:
            return result
        return [
            np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
            for dtype, shape, text in arrays
        ]

    return serve


def main() -> None:
    with serve_lab() as address, launch_chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}python/")
        module = (ROOT / "tests" / "native_worker.py").read_text()
        page.evaluate(START, [module, ANSWER])
        native_worker.main(answers(page))


if __name__ == "__main__":
    main()
