"""The bench page in Chromium, on its software adapter: the smallest sweep, from start to record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_page import PATIENCE_MS, BenchPage
from lab_browser import GPU_FLAGS, launch_chromium
from page_checks import overflow, violations
from playwright.sync_api import Browser, Page, expect

SMALLEST = 128
CASE = f"matmul NN {SMALLEST} {SMALLEST} {SMALLEST}"


@pytest.fixture(scope="module")
def gpu_browser() -> Iterator[Browser]:
    with launch_chromium(*GPU_FLAGS) as browser:
        yield browser


@pytest.fixture(params=["dark", "light"])
def bench(
    gpu_browser: Browser, lab_url: str, request: pytest.FixtureRequest
) -> Iterator[BenchPage]:
    """Axe is injected, which the page's own policy forbids: this context alone bypasses it."""
    context = gpu_browser.new_context(
        color_scheme=request.param, bypass_csp=True, reduced_motion="reduce", accept_downloads=True
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield BenchPage(context.new_page(), lab_url).open()
    context.close()


def test_a_sweep_ends_in_a_table_and_a_record(bench: BenchPage, tmp_path: Path) -> None:
    page = bench.page
    expect(bench.shown("adapter")).to_contain_text("swiftshader")
    bench.choose({"cube"}, SMALLEST)
    # By keyboard: Enter starts it, as any form.
    page.get_by_label("Largest size").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert bench.wait() == "done"
    expect(page.get_by_role("button", name="Measure this GPU")).to_be_focused()

    rows = page.locator(f"[data-testid=results] tr[data-case='{CASE}']")
    record = bench.download(tmp_path)
    results = record["results"]
    assert rows.count() == len(results) >= 2
    for index in range(rows.count()):
        expect(rows.nth(index)).to_contain_text("software")
    assert record["machine"]["software_adapter"] is True
    assert record["verdict"]["ok"], record["verdict"]["why"]
    assert record["clock"]["gpu_quantum_s"] > 0
    naive = next(row for row in results if row["variant"] == "naive")
    assert naive["ok"] and 0 < naive["error"] < 1
    assert len(naive["gpu_s"]) == len(naive["wall_s"]) >= 3

    page.get_by_label("Peak of this GPU").fill("10")
    expect(page.get_by_role("columnheader", name="Of the peak")).to_be_visible()
    page.get_by_role("button", name="Copy record").click()
    expect(page.get_by_text("The record is in the clipboard.")).to_be_visible()
    copied = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
    assert copied["results"] == results

    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert overflow(page) == 0


def test_a_sweep_can_be_stopped(gpu_browser: Browser, lab_url: str) -> None:
    bench = BenchPage(gpu_browser.new_page(), lab_url).open()
    bench.choose({"cube", "attention"}, 512)
    bench.start()
    expect(bench.page.locator("tr[data-case]").first).to_be_attached(timeout=PATIENCE_MS)
    bench.page.get_by_role("button", name="Stop").click()
    assert bench.wait() == "stopped"
    expect(bench.shown("sweep-status")).to_contain_text("Stopped")
    bench.page.close()


def test_without_webgpu_the_page_says_so(page: Page, lab_url: str) -> None:
    """The suite's own Chromium has WebGPU switched off."""
    bench = BenchPage(page, lab_url).open()
    expect(bench.shown("no-gpu")).to_contain_text("nothing to measure", timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Measure this GPU")).to_be_disabled()
