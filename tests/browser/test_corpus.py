"""The text that a run trains on is the one that the page shows."""

from __future__ import annotations

from pathlib import Path

from playground import TINY, Playground
from playwright.sync_api import expect

TEXT = "to be or not to be, that is the question\n" * 40


def test_choosing_file_trains_on_nothing_until_one_is_chosen(
    playground: Playground, tmp_path: Path
) -> None:
    playground.open()
    start = playground.page.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_enabled()
    playground.page.get_by_role("radio", name="File").check()
    expect(start).to_be_disabled()
    expect(playground.page.get_by_text("Choose a text file")).to_be_visible()
    path = tmp_path / "hamlet.txt"
    path.write_text(TEXT)
    playground.choose_file(path)
    expect(playground.shown("corpus-tokens")).to_have_text(f"{len(TEXT):,}")


def test_a_start_right_after_choosing_a_file_trains_on_that_file(
    playground: Playground, tmp_path: Path
) -> None:
    path = tmp_path / "hamlet.txt"
    path.write_text(TEXT)
    playground.open()
    playground.choose_file(path)
    playground.train(**TINY, steps=5)
    config = (playground.download(tmp_path / "run") / "config.json").read_text()
    assert f'"vocab_size": {len(set(TEXT))}' in config
