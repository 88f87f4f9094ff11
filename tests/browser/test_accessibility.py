"""Usable by keyboard and screen reader: axe-core's rules, focus, and a page that fits a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page_checks import overflow, violations
from playground import TINY, Playground
from playwright.sync_api import Browser, Page, expect


@pytest.fixture(params=["dark", "light"])
def themed(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Axe is injected, which the page's own policy forbids: this context alone bypasses it."""
    context = browser.new_context(
        color_scheme=request.param, bypass_csp=True, reduced_motion="reduce"
    )
    yield context.new_page()
    context.close()


def test_axe_finds_nothing_on_the_playground(themed: Page, lab_url: str) -> None:
    playground = Playground(themed, lab_url).open()
    assert violations(themed) == []
    playground.train(**TINY, steps=20)
    playground.sample()
    playground.set(n_layer=0)
    assert violations(themed) == []


def test_axe_finds_nothing_on_the_proof(themed: Page, lab_url: str) -> None:
    themed.goto(f"{lab_url.rstrip('/')}/check/")
    expect(themed.get_by_test_id("check")).to_have_attribute("data-phase", "done", timeout=120_000)
    assert violations(themed) == []


def test_a_run_can_be_started_and_stopped_by_keyboard(playground: Playground) -> None:
    playground.open()
    playground.set(**TINY, steps=100_000)
    page = playground.page
    page.locator("#build").focus()
    focused = "() => document.activeElement.textContent"
    for _ in range(20):  # the engine's own controls come between
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "Start":
            break
    assert page.evaluate(focused) == "Start"
    page.keyboard.press("Enter")
    playground.wait_for("Training")
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Space")
    playground.wait_for("Stopped")
    expect(page.locator("p[role=status]").first).to_contain_text("Run stopped at step")


@pytest.mark.parametrize("width", [360, 768, 1024, 1920])
def test_nothing_is_wider_than_the_screen(playground: Playground, width: int) -> None:
    playground.page.set_viewport_size({"width": width, "height": 800})
    playground.open()
    playground.train(**TINY, steps=10)
    assert overflow(playground.page) == 0


def test_the_proof_fits_a_phone_too(page: Page, lab_url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{lab_url.rstrip('/')}/check/")
    expect(page.get_by_test_id("check")).to_have_attribute("data-phase", "done", timeout=120_000)
    assert overflow(page) == 0
