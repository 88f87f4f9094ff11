"""What a person does on the bench page, for the tests and for bench/kernels_tab.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

PATIENCE_MS = 240_000
GROUPS = {
    "cube": "Cubes",
    "training": "Products of a training step",
    "attention": "Attention",
    "step": "Whole training steps",
}
"""Of sweep.json: how each checkbox begins."""


class BenchPage:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = f"{url.rstrip('/')}/bench/"

    def open(self) -> BenchPage:
        """Waits until the page has found a GPU, or none."""
        self.page.goto(self.url)
        expect(self.shown("sweep")).not_to_have_attribute(
            "data-phase", "looking", timeout=PATIENCE_MS
        )
        return self

    def shown(self, name: str) -> Any:
        return self.page.get_by_test_id(name)

    def choose(self, groups: set[str], most: int, experimental: bool = True) -> None:
        """Which groups of sweep.json, and the largest size."""
        for group, label in GROUPS.items():
            self.page.get_by_label(label).set_checked(group in groups)
        self.page.get_by_label("that training does not offer").set_checked(experimental)
        self.page.get_by_label("Largest size").select_option(str(most))

    def start(self) -> None:
        self.page.get_by_role("button", name="Measure this GPU").click()

    def wait(self, timeout_ms: float = PATIENCE_MS) -> str:
        """Until the sweep is over: done, stopped or failed."""
        ends = ", ".join(f"[data-phase={phase}]" for phase in ("done", "stopped", "failed"))
        over = self.page.locator(f"[data-testid=sweep]:is({ends})")
        expect(over).to_be_attached(timeout=timeout_ms)
        return str(over.get_attribute("data-phase"))

    def download(self, folder: Path) -> dict[str, Any]:
        """The record, from its file."""
        with self.page.expect_download(timeout=PATIENCE_MS) as waiting:
            self.page.get_by_role("button", name="Download record").click()
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record
