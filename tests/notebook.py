"""What a person does on the page /python, for the tests."""

from __future__ import annotations

from playwright.sync_api import Page, expect

PATIENCE_MS = 240_000


class Notebook:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = f"{url.rstrip('/')}/python/"

    def open(self) -> Notebook:
        """Opens the page and waits until Python is there."""
        self.page.goto(self.url)
        self.wait_for("ready")
        return self

    def wait_for(self, phase: str) -> None:
        frame = self.page.get_by_test_id("notebook")
        expect(frame).to_have_attribute("data-phase", phase, timeout=PATIENCE_MS)

    def choose(self, example: str) -> Notebook:
        self.page.get_by_label("Example").select_option(example)
        return self

    def write(self, code: str) -> Notebook:
        self.page.get_by_label("Python to run").fill(code)
        return self

    def start(self) -> None:
        self.page.get_by_role("button", name="Run", exact=True).click()

    def run(self) -> str:
        """Runs the cell to its end; its output."""
        self.start()
        self.wait_for("ready")
        return self.output

    @property
    def output(self) -> str:
        return self.page.get_by_test_id("output").inner_text()

    @property
    def standing(self) -> str:
        return self.page.get_by_test_id("standing").inner_text()
