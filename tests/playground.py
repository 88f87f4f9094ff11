"""What a person does on the playground page, for the tests."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Download, Locator, Page, expect

TINY = {"n_layer": 1, "n_head": 2, "d_model": 16, "ctx": 16, "batch_size": 4, "warmup_steps": 10}
"""Hundreds of steps a second: for what the page does, not for what the model learns."""
PATIENCE_MS = 240_000
"""A GPU that is a program of the CPU takes a minute for what a GPU does at once."""


class Playground:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url

    def open(self) -> Playground:
        """Opens the page and waits until the core has planned the default run."""
        self.page.goto(self.url)
        expect(self.shown("parameters")).to_have_text(re.compile(r"\d"), timeout=PATIENCE_MS)
        return self

    def shown(self, name: str) -> Locator:
        return self.page.get_by_test_id(name)

    def field(self, name: str) -> Locator:
        return self.page.locator(f"#field-{name}")

    def set(self, **values: Any) -> None:
        """Types hyper-parameters by their names in presets.json."""
        closed = self.page.locator("details:not([open]) > summary")
        while closed.count() > 0:
            closed.first.click()
        for name, value in values.items():
            control = self.field(name)
            if control.evaluate("element => element.tagName") == "SELECT":
                control.select_option(str(value))
            else:
                control.fill(str(value))

    def problem(self, name: str) -> Locator:
        return self.page.locator(f"[data-field={name}] .problem")

    def paste(self, text: str) -> None:
        self.page.get_by_role("radio", name="Paste").check()
        self.page.get_by_label("Your text").fill(text)

    def choose_file(self, path: Path) -> None:
        self.page.get_by_role("radio", name="File").check()
        self.page.get_by_label("A text file").set_input_files(path)

    def choose_preset(self, name: str) -> None:
        self.page.get_by_label("Preset").select_option(name)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def wait_for(self, state: str) -> None:
        """Ready, Training, Paused, Stopped, Finished or Failed."""
        expect(self.shown("state")).to_have_text(state, timeout=PATIENCE_MS)

    @property
    def step(self) -> int:
        found = re.match(r"([\d,]+) of", self.shown("step").inner_text())
        return int(found.group(1).replace(",", "")) if found else 0

    def wait_for_step(self, step: int) -> None:
        for _ in range(PATIENCE_MS // 20):
            if self.step >= step:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"step {step} was not reached; the page says {self.step}")

    def train(self, **values: Any) -> None:
        """A run from start to end."""
        self.set(**values)
        self.press("Start")
        self.wait_for("Finished")

    def sample(self) -> str:
        """Presses Write; gives the newest text, without its prompt."""
        done = self.page.locator("[data-testid=samples] li[data-live=false][data-done=true]")
        before = done.count()
        self.press("Write")
        expect(done).to_have_count(before + 1, timeout=PATIENCE_MS)
        newest = done.first
        prompt = newest.locator(".log-prompt").text_content() or ""
        return (newest.locator(".log-text").text_content() or "").removeprefix(prompt)

    def download(self, folder: Path) -> Path:
        """The saved run's zip, unpacked into `folder`."""
        with self.page.expect_download(timeout=PATIENCE_MS) as waiting:
            self.press("Download zip")
        return unpack(waiting.value, folder)

    def upload(self, *files: Path) -> None:
        self.page.locator("input[type=file][multiple]").set_input_files(list(files))


def unpack(download: Download, folder: Path) -> Path:
    archive = folder / download.suggested_filename
    folder.mkdir(parents=True, exist_ok=True)
    download.save_as(archive)
    with zipfile.ZipFile(archive) as content:
        assert content.testzip() is None
        content.extractall(folder)
    archive.unlink()
    return folder


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
