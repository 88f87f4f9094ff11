"""The page's GPU path and single kernels inside a browser's tab, in the words of tests/remote.py.

What is asked goes to a worker (tests/gpu/tab.ts, bundled with the page's own code) that computes
on the browser's GPU. The page that carries it needs no more than the site's WASM builds.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kernel_runner import Kernels
from lab_browser import SITE, SOFTWARE_GPU_FLAGS, launch_chromium, serve_lab
from playwright.sync_api import Page
from remote import NODE, ROOT, CoreError

ROLLDOWN = ROOT / "browser/node_modules/.bin/rolldown"
SCRIPT = "gpu_tab.js"

START = """script => {
  const worker = new Worker(script, { type: "module" });
  const waiting = new Map();
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const text = (values) => {
    const all = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    const parts = [];
    for (let i = 0; i < all.length; i += 32768) parts.push(String.fromCharCode(...all.subarray(i, i + 32768)));
    return btoa(parts.join(""));
  };
  worker.onmessage = ({ data: { id, arrays, ...reply } }) =>
    waiting.get(id).resolve({ ...reply, arrays: arrays.map(({ values, shape }) => ({ shape, data: text(values) })) });
  worker.onerror = ({ message }) => waiting.forEach(({ reject }) => reject(new Error(message || "the worker did not load")));
  globalThis.ask = (call, args, arrays) => new Promise((resolve, reject) => {
    const id = waiting.size;
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, call, args, arrays: arrays.map(bytes) });
  });
}"""  # noqa: E501
ASK = "({ call, args, arrays }) => ask(call, args, arrays)"


class GpuTab(Kernels):
    """A page at `url`, where the worker's script and the folder wasm lie, as a process is."""

    def __init__(self, page: Page, url: str) -> None:
        self.name, self._page = "chromium", page
        page.goto(url)
        page.evaluate(START, SCRIPT)
        folder = ROOT / "shaders"
        texts = {file.stem: file.read_text(encoding="utf-8") for file in folder.glob("*.wgsl")}
        self("setup", site=url, shaders=texts)

    def __call__(self, call: str, arrays: Sequence[np.ndarray] = (), **args: Any) -> Any:
        given = [base64.b64encode(np.ascontiguousarray(a).tobytes()).decode() for a in arrays]
        reply = self._page.evaluate(ASK, {"call": call, "args": args, "arrays": given})
        if "error" in reply:
            raise CoreError(reply["error"])
        got = [
            np.frombuffer(base64.b64decode(array["data"]), np.float32).reshape(array["shape"])
            for array in reply["arrays"]
        ]
        return got if got else reply["result"]

    @property
    def alive(self) -> bool:
        return not self._page.is_closed()

    @property
    def default_threads(self) -> int:
        return 1


@contextlib.contextmanager
def open_tab() -> Iterator[GpuTab]:
    """A tab of Chromium with a GPU, on a site of the WASM builds and the worker's script."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(SITE / "wasm", folder / "wasm")
        shutil.copy(SITE / "icon.svg", folder)
        (folder / "index.html").write_text(
            "<!doctype html><link rel=icon href=icon.svg><title>gpu</title>\n"
        )
        bundle(folder)
        with serve_lab(folder) as url, launch_chromium(*SOFTWARE_GPU_FLAGS) as browser:
            yield GpuTab(browser.new_page(), url)


def bundle(folder: Path) -> None:
    """The worker's script, into the site's folder."""
    command = [NODE, ROLLDOWN.resolve(), ROOT / "tests/gpu/tab.ts", "--format", "esm"]
    command += ["--log-level", "warn", "--file", folder / SCRIPT]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
