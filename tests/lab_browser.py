"""The built site as `tabgpt lab` serves it, and the Chromium that opens it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import chromium
from playwright.sync_api import Browser, BrowserContext, Playwright, sync_playwright

GPU_FLAGS = ("--enable-unsafe-webgpu", "--enable-webgpu-developer-features")
"""WebGPU on whatever adapter there is, by its full name; without a GPU a program on the CPU."""

SOFTWARE_GPU_FLAGS = (
    *GPU_FLAGS,
    "--use-webgpu-adapter=swiftshader",
    # Else the second loss of a GPU process is the end of WebGPU.
    "--disable-gpu-process-crash-limit",
    "--disable-domain-blocking-for-3d-apis",
)
"""A GPU that is a program, on a machine that has another too; it may be lost again and again."""

SITE = Path(__file__).resolve().parents[1] / "browser" / "dist"


@contextlib.contextmanager
def serve_lab(site: Path = SITE) -> Iterator[str]:
    """`tabgpt lab` of the checkout as a person starts it; gives the address that it prints."""
    assert (site / "index.html").exists(), "the site is not built: run `make site`"
    with lab_of([sys.executable, "-m", "tabgpt"], "--site", str(site)) as address:
        yield address


@contextlib.contextmanager
def lab_of(
    tabgpt: Sequence[str], *options: str, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """The lab of the command `tabgpt` on a free port."""
    command = [*tabgpt, "lab", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        assert address, f"tabgpt lab printed no address: {line!r}"
        try:
            yield address
        finally:
            server.terminate()


@functools.cache
def driver() -> Playwright:
    """Playwright's driver: a process may have one at a time, which serves all of its browsers."""
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright


@contextlib.contextmanager
def launch_chromium(*flags: str) -> Iterator[Browser]:
    """The system's Chromium, headless."""
    path = chromium.find_chromium()
    assert path is not None, chromium.HOW
    # Root, as in most containers, has no sandbox of Chromium's own.
    browser = driver().chromium.launch(executable_path=path, args=["--no-sandbox", *flags])
    try:
        yield browser
    finally:
        browser.close()


@contextlib.contextmanager
def launch_with_profile(folder: str, *flags: str) -> Iterator[BrowserContext]:
    """The same with a profile in a folder: a page's private files lie there, not in memory."""
    path = chromium.find_chromium()
    assert path is not None, chromium.HOW
    context = driver().chromium.launch_persistent_context(
        folder, executable_path=path, args=["--no-sandbox", *flags]
    )
    try:
        yield context
    finally:
        context.close()
