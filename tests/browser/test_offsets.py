"""Addresses above 2 GiB and above 4 GiB, in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_browser import serve_lab
from offsets import CASES, judge
from playwright.sync_api import Page
from tab_workers import ask, build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder, ["offsets_tab"])
    return folder


@pytest.mark.parametrize(("build", "edge"), CASES)
def test_both_ends_of_memory_above_the_edge_are_written_and_read(
    page: Page, site: Path, build: str, edge: int
) -> None:
    with serve_lab(site) as address:
        page.goto(address)
        judge(ask(page, "offsets_tab", {"build": build, "edge": edge}), build, edge)
