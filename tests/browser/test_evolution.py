"""The page of the stages: what was recorded, and the same measurement in this browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((ROOT / "bench/records/evolution.json").read_text())
STAGES = json.loads((ROOT / "bench/stages.json").read_text())["stages"]
PATIENCE_MS = 240_000


def test_stages_are_shown_as_recorded_and_run_here(page: Page, lab_url: str) -> None:
    page.goto(f"{lab_url}evolution/")
    row = page.locator("tr[data-stage=native-avx2]")
    (recorded,) = (
        each
        for each in RECORD["results"]
        if (each["preset"], each["stage"]) == ("small", "native-avx2")
    )
    shown = row.locator(".figure").first
    ratio = recorded["ratio"]["median"]
    expect(shown).to_contain_text(f"{ratio:.1f} ×" if ratio >= 10 else f"{ratio:.2f} ×")
    for each in RECORD["results"]:
        for gain in each.get("gains", []) if each["preset"] == "small" else []:
            explained = page.locator(f"tr[data-stage={each['stage']}]")
            expect(explained).to_contain_text(gain["why"])
    page.get_by_role("button", name="Run on this machine").click()
    lamp = page.get_by_test_id("evolution")
    expect(lamp).to_have_attribute("data-phase", "done", timeout=PATIENCE_MS)
    expect(lamp).to_contain_text("gives the oracle's losses")
    for stage in STAGES:
        if stage["host"] == "tab":
            mine = page.locator(f"tr[data-stage={stage['name']}]")
            expect(mine).to_have_attribute("data-passed", "true")
            expect(mine.locator(".figure").nth(1)).to_have_text(re.compile(r"\d ×.*ms"))


def test_a_run_can_be_stopped(page: Page, lab_url: str) -> None:
    page.goto(f"{lab_url}evolution/")
    page.get_by_label("Preset").select_option("xl")
    page.get_by_role("button", name="Run on this machine").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_test_id("evolution")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Run on this machine")).to_be_enabled()
