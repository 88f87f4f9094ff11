"""A page in Chromium that runs workers of tests/wasm, bundled and served by the lab."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab_browser import SITE
from playwright.sync_api import Page
from remote import NODE, ROOT

ROLLDOWN = ROOT / "browser/node_modules/.bin/rolldown"
WASM = ROOT / "tests/wasm"
ASK = """([name, job, patience]) => new Promise((resolve, reject) => {
  const workers = (window.workers ??= {});
  const worker = (workers[name] ??= new Worker(`/${name}.js`, { type: "module" }));
  setTimeout(() => reject(new Error(`${name} gave no answer in ${patience} s`)), 1000 * patience);
  worker.onmessage = ({ data: { result, error } }) =>
    error ? reject(new Error(error)) : resolve(result);
  worker.onerror = ({ message }) => reject(new Error(message || `the worker ${name} failed`));
  worker.postMessage(job);
})"""
PATIENCE_S = 240


def build_site(folder: Path, workers: Sequence[str], files: Sequence[Path] = ()) -> None:
    """WASM builds, the oracle's trajectory, files, and each tests/wasm/{worker}.ts as a .js."""
    for part in ("wasm", "check"):
        shutil.copytree(SITE / part, folder / part)
    for file in (SITE / "icon.svg", *files):
        shutil.copy(file, folder)
    (folder / "index.html").write_text(
        "<!doctype html><link rel=icon href=icon.svg><title>workers</title>\n"
    )
    for worker in workers:
        bundle = [NODE, ROLLDOWN.resolve(), WASM / f"{worker}.ts", "--format", "esm"]
        bundle += ["--log-level", "warn", "--file", folder / f"{worker}.js"]
        subprocess.run(list(map(str, bundle)), check=True, stdout=subprocess.DEVNULL)


def ask(page: Page, worker: str, job: object, patience_s: float = PATIENCE_S) -> Any:
    """What a worker answers, started when it is first asked; its error is raised here."""
    return page.evaluate(ASK, [worker, job, patience_s])
