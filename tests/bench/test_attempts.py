"""Every line of the attempt ledger follows its schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import attempts  # noqa: E402


def test_the_ledger_follows_its_schema_and_is_in_order() -> None:
    ledger = attempts.read()
    assert any(not attempt["kept"] for attempt in ledger), "negative results stay"
    dates = [attempt["date"] for attempt in ledger]
    assert dates == sorted(dates), "lines are added at the end"


@pytest.mark.parametrize(
    "damage",
    [
        lambda attempt: attempt.pop("prediction"),
        lambda attempt: attempt["measured"].pop("command"),
        lambda attempt: attempt["measured"].update(ratio=0),
        lambda attempt: attempt.update(kept="yes"),
    ],
)
def test_an_attempt_without_its_figures_is_refused(damage: Any, tmp_path: Path) -> None:
    attempt = attempts.read()[0]
    damage(attempt)
    path = tmp_path / "attempts.jsonl"
    path.write_text(json.dumps(attempt) + "\n")
    with pytest.raises(ValueError, match=r"attempts\.jsonl, line 1"):
        attempts.read(path)
