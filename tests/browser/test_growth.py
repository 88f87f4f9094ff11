"""A WASM memory that grows while threads run, in Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from growth import BUILDS, MIDDLE_BUILDS, MIDDLE_STEPS, judge, middle
from lab_browser import serve_lab
from playwright.sync_api import Page
from tab_workers import WASM, ask, build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder, ["growth_tab"], [WASM / "grower.mjs"])
    return folder


@pytest.mark.parametrize("build", BUILDS)
def test_losses_are_the_oracles_where_memory_grows_under_the_threads(
    page: Page, site: Path, build: str
) -> None:
    with serve_lab(site) as address:
        page.goto(address)
        judge(ask(page, "growth_tab", {"build": build, "given": None}))


@pytest.mark.parametrize("build", MIDDLE_BUILDS)
def test_a_model_of_millions_grows_its_memory_and_has_the_native_losses(
    page: Page, site: Path, build: str
) -> None:
    with serve_lab(site) as address:
        page.goto(address)
        grown = ask(page, "growth_tab", {"build": build, "given": middle()})
    judge(grown, steps_that_grow=MIDDLE_STEPS)
