"""The built site in real Chromium, served by `tabgpt lab` and by a bare static host."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from lab_browser import SITE, launch_chromium, serve_lab
from playground import Playground
from playwright.sync_api import Browser, Page

SUB_PATH = "/people/ada/tabgpt/"


@pytest.fixture(scope="session")
def lab_url() -> Iterator[str]:
    with serve_lab() as address:
        yield address


class _BareHost(SimpleHTTPRequestHandler):
    """A static host under a sub-path that sends none of the lab's headers."""

    def translate_path(self, path: str) -> str:
        return super().translate_path("/" + path.removeprefix(SUB_PATH))

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def bare_url() -> Iterator[str]:
    handler = functools.partial(_BareHost, directory=str(SITE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{SUB_PATH}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with launch_chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh profile; the test fails where the page wrote an error to the console."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def playground(page: Page, lab_url: str) -> Playground:
    return Playground(page, lab_url)
