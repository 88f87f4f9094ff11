"""A few mutations, chosen by the date; all of them by `python tests/mutations.py`."""

from __future__ import annotations

import datetime
from pathlib import Path

import mutations
import pytest
from mutants import MUTANTS

COUNT = 4


def test_every_anchor_occurs_once() -> None:
    mutations.check_anchors()


def test_an_anchor_that_is_gone_is_named(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    (tmp_path / mutant.file).parent.mkdir(parents=True)
    (tmp_path / mutant.file).write_text("other code\n", encoding="utf-8")
    with pytest.raises(mutations.AnchorError, match="occurs 0 times"):
        mutations.check_anchors([mutant], tmp_path)


def test_the_table_is_of_these_mutations() -> None:
    """mutations.md is committed; it names every mutation, each caught by an assertion."""
    text = mutations.TABLE.read_text(encoding="utf-8")
    for mutant in MUTANTS:
        assert f"| {mutant.file} | {mutant.what} | `test_" in text, (
            f"{mutant.what!r} is not in tests/mutations.md as caught; run python tests/mutations.py"
        )
    assert f"{len(MUTANTS)} mutations, 0 survivors" in text


@pytest.mark.mutation
def test_todays_mutations_are_caught() -> None:
    """Builds a copy of the core: about two minutes."""
    chosen = mutations.choose(COUNT, datetime.date.today().isoformat())
    verdicts = mutations.run(chosen, mutations.ROOT / "build/mutations-today")
    survivors = [f"{v.mutant.file}: {v.mutant.what} {v.why}" for v in verdicts if not v.caught]
    assert not survivors, "\n".join(survivors)
    assert len(verdicts) == COUNT
