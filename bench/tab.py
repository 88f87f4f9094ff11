"""Trains in a Chromium tab as a person would, and brings the run's metrics home."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from record import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from lab_browser import launch_chromium, serve_lab
from playground import Playground, metrics

POLL_MS = 500


def train(corpus: Path, preset: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One whole run of a preset; (lines of metrics.jsonl, {version, build}).

    Raises RuntimeError with the page's own sentence when the run does not finish.
    """
    with serve_lab() as address, launch_chromium() as browser:
        playground = Playground(browser.new_page(), address).open()
        playground.choose_file(corpus)
        playground.choose_preset(preset)
        playground.press("Start")
        state = playground.shown("state")
        while (now := state.inner_text()) not in ("Finished", "Failed", "Stopped"):
            playground.page.wait_for_timeout(POLL_MS)
        if now != "Finished":
            raise RuntimeError(f"{now}: {playground.shown('error').inner_text()}")
        with tempfile.TemporaryDirectory() as folder:
            lines = metrics(playground.download(Path(folder) / "run"))
        build = playground.shown("engine-line").inner_text()
        return lines, {"version": f"Chromium {browser.version}", "build": build}
