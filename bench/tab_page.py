"""A page in Chromium with workers of the benches: bundled, served isolated, asked from Python."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext
from record import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from lab_browser import launch_chromium, launch_with_profile

WORKERS = Path(__file__).resolve().parent / "tab"
WASM = ROOT / "browser/public/wasm"
ROLLDOWN = ROOT / "browser/node_modules/.bin/rolldown"
NODE = Path(sys.executable).parent / "node"

ASK = """(questions) => {
  const ask = ([name, job]) => new Promise((resolve, reject) => {
    const workers = (window.workers ??= {});
    const worker = (workers[name] ??= new Worker(`/${name.split('#')[0]}.js`, { type: 'module' }));
    worker.onmessage = ({ data: { result, error } }) =>
      error ? reject(new Error(error)) : resolve(result);
    worker.onerror = ({ message }) =>
      reject(new Error(message || `the worker ${name} did not load`));
    worker.postMessage(job);
  });
  return Promise.all(questions.map(ask));
}"""


VERSION = """navigator.userAgentData.getHighEntropyValues(['uaFullVersion'])
  .then(({ uaFullVersion }) => uaFullVersion)"""


class IsolatedHost(SimpleHTTPRequestHandler):
    """Files with the headers that give a page threads and the fine clock.

    No content policy as `tabgpt lab` has one: some libraries start their threads from blobs.
    """

    def end_headers(self) -> None:
        for name in ("Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"):
            self.send_header(name, "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class TabPage:
    """An open page and its workers, each started when it is first asked."""

    def __init__(self, page: Any, version: str) -> None:
        self._page = page
        self.browser = version

    def ask(self, worker: str, **job: Any) -> Any:
        """What bench/tab/{worker}.ts answers; an Error that it throws is raised here.

        What follows a # in the name tells workers of one kind apart.
        """
        return self.ask_together([(worker, job)])[0]

    def ask_together(self, questions: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
        """The answers of several workers to (name, job), asked at the same time."""
        answers: list[Any] = self._page.evaluate(ASK, [list(each) for each in questions])
        return answers


def build(folder: Path, workers: Sequence[str], files: Mapping[str, Path]) -> None:
    """Bundles the workers and copies our WASM builds and `files` (name on the site: source)."""
    for needed, target in ((WASM / "relaxed", "wasm"), (ROLLDOWN, "npm")):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} is missing: run `make {target}`")
    (folder / "index.html").write_text("<!doctype html><title>bench</title>\n")
    shutil.copytree(WASM, folder / "wasm")
    for name, source in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, folder / name)
    for worker in workers:
        command = [NODE, ROLLDOWN.resolve(), WORKERS / f"{worker}.ts", "--dir", folder]
        options = ["--format", "esm", "--platform", "browser", "--log-level", "warn"]
        subprocess.run([*map(str, command), *options], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of a server on this machine for as long as the context lasts."""
    handler = functools.partial(IsolatedHost, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextlib.contextmanager
def open_page(
    workers: Sequence[str], files: Mapping[str, Path] | None = None, flags: Sequence[str] = ()
) -> Iterator[TabPage]:
    """Builds and serves a site in a temporary folder, and opens it in a browser of its own.

    flags are that Chromium's switches.
    """
    with launch_chromium(*flags) as browser, open_in(browser, workers, files) as page:
        yield page


@contextlib.contextmanager
def open_with_profile(workers: Sequence[str], profile: str) -> Iterator[TabPage]:
    """The same in a browser whose profile lies in a folder, and a page's private files with it."""
    with launch_with_profile(profile) as context, open_in(context, workers) as page:
        yield page


@contextlib.contextmanager
def open_in(
    browser: Browser | BrowserContext,
    workers: Sequence[str],
    files: Mapping[str, Path] | None = None,
) -> Iterator[TabPage]:
    """The same in a browser that is open."""
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), workers, files or {})
        with serve(Path(name)) as address:
            page = browser.new_page()
            page.goto(address)
            if not page.evaluate("crossOriginIsolated"):
                raise RuntimeError("the page is not isolated: no threads and a coarse clock")
            yield TabPage(page, f"Chromium {page.evaluate(VERSION)}")
            page.close()
