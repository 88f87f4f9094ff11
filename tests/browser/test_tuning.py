"""Tuning on the playground: every kernel measured on the chosen model, the fastest remembered."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import tiny_run
from lab_browser import SOFTWARE_GPU_FLAGS, launch_chromium
from playground import PATIENCE_MS, TINY, Playground
from playwright.sync_api import Browser, expect

CHOICE = re.compile(r"^\s*Trains with \w+ products and \w+ attention: measured on this model, ")
OWN = re.compile("Trains with the kernels that the page chooses")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_chromium(*SOFTWARE_GPU_FLAGS) as browser:
        yield browser


def choose_gpu(playground: Playground) -> None:
    option = playground.page.locator("#device option[value=gpu]")
    expect(option).to_be_enabled(timeout=PATIENCE_MS)
    playground.page.get_by_label("Train on").select_option("gpu")


def test_tuning_is_remembered_and_trained_with_until_it_is_dropped(playground: Playground) -> None:
    playground.open()
    playground.paste(tiny_run.TEXT)
    playground.set(**TINY, steps=3)
    choose_gpu(playground)
    tuned = playground.shown("tuned")
    expect(tuned).to_have_text(OWN)
    playground.press("Tune for this GPU")
    expect(tuned).to_have_text(CHOICE, timeout=PATIENCE_MS)
    said = tuned.inner_text()
    playground.press("Start")
    playground.wait_for("Finished")

    playground.open()
    choose_gpu(playground)
    expect(tuned).to_have_text(said)
    playground.press("Use the page's own choice")
    expect(tuned).to_have_text(OWN)
    playground.open()
    expect(playground.page.get_by_role("button", name="Tune for this GPU")).to_be_visible(
        timeout=PATIENCE_MS
    )
    expect(tuned).to_have_text(OWN)


def test_tuning_can_be_stopped(playground: Playground) -> None:
    playground.open()
    playground.paste(tiny_run.TEXT)
    choose_gpu(playground)
    playground.press("Tune for this GPU")
    playground.press("Stop tuning")
    expect(playground.shown("tuned")).to_have_text(
        re.compile("Not tuned: tuning was stopped"), timeout=PATIENCE_MS
    )
