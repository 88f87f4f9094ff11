"""Where the site is served: the lab's isolation, and any static host under any path."""

from __future__ import annotations

import re

from playground import TINY, Playground
from playwright.sync_api import Page, expect
from remote import WASM


def test_without_isolation_it_says_why_and_trains_on_one_thread(page: Page, bare_url: str) -> None:
    playground = Playground(page, bare_url).open()
    expect(playground.shown("engine-reason")).to_contain_text("not cross-origin isolated")
    playground.train(**TINY, steps=20)
    expect(playground.shown("engine-line")).to_have_text(re.compile("1 thread$"))


def test_a_service_worker_gives_threads_to_those_who_ask_for_it(page: Page, bare_url: str) -> None:
    """Nobody has it before; switched off again, it is gone."""
    registered = "navigator.serviceWorker.getRegistrations().then((all) => all.length)"
    playground = Playground(page, bare_url).open()
    assert page.evaluate(registered) == 0
    page.get_by_role("button", name="Switch on, and load again").click()
    off = page.get_by_role("button", name="Switch it off, and load again")
    expect(off).to_be_visible(timeout=60_000)
    assert page.evaluate("crossOriginIsolated")
    playground.train(**TINY, steps=20)
    expect(playground.shown("engine-line")).to_have_text(re.compile("[2-9] threads$"))
    off.click()
    expect(page.get_by_role("button", name="Switch on, and load again")).to_be_visible()
    assert page.evaluate(registered) == 0


def test_nothing_is_asked_of_another_host(page: Page, lab_url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    Playground(page, lab_url).open().train(**TINY, steps=5)
    foreign = [url for url in asked if not url.startswith((lab_url, "blob:"))]
    assert foreign == []


def test_every_build_proves_itself_in_the_browser(page: Page, lab_url: str) -> None:
    page.goto(f"{lab_url.rstrip('/')}/check/")
    check = page.get_by_test_id("check")
    expect(check).to_have_attribute("data-phase", "done", timeout=120_000)
    every = str(len(WASM))
    assert check.get_attribute("data-offered") == every
    assert check.get_attribute("data-passed") == every, page.locator("table").inner_text()


def test_the_proof_runs_without_isolation_too(page: Page, bare_url: str) -> None:
    page.goto(f"{bare_url}check/")
    check = page.get_by_test_id("check")
    expect(check).to_have_attribute("data-phase", "done", timeout=120_000)
    assert check.get_attribute("data-passed") == check.get_attribute("data-offered") == "3"
