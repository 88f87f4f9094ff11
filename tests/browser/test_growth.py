"""A WASM memory that grows while threads run, in Chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from growth import BUILDS, judge
from lab_browser import SITE, serve_lab
from playwright.sync_api import Page
from remote import NODE, ROOT

ROLLDOWN = ROOT / "browser/node_modules/.bin/rolldown"
WASM = ROOT / "tests/wasm"
ASK = """build => new Promise((resolve, reject) => {
  const worker = new Worker("/growth_tab.js", { type: "module" });
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = ({ message }) => reject(new Error(message || "the worker did not load"));
  worker.postMessage(build);
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for part in ("wasm", "check"):
        shutil.copytree(SITE / part, folder / part)
    for file in (WASM / "grower.mjs", SITE / "icon.svg"):
        shutil.copy(file, folder)
    (folder / "index.html").write_text(
        "<!doctype html><link rel=icon href=icon.svg><title>growth</title>\n"
    )
    bundle = [NODE, ROLLDOWN.resolve(), WASM / "growth_tab.ts", "--format", "esm"]
    bundle += ["--log-level", "warn", "--file", folder / "growth_tab.js"]
    subprocess.run(list(map(str, bundle)), check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize("build", BUILDS)
def test_losses_are_the_oracles_where_memory_grows_under_the_threads(
    page: Page, site: Path, build: str
) -> None:
    with serve_lab(site) as address:
        page.goto(address)
        judge(page.evaluate(ASK, build))
