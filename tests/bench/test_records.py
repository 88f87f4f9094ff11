"""Every figure the project shows comes from a record, and the presets quote the sweep."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import lr_sweep  # noqa: E402
import record  # noqa: E402
import tables  # noqa: E402

RECORDS = sorted((ROOT / "bench" / "records").glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_follows_the_schema_and_its_own_verdict_holds(path: Path) -> None:
    data = record.read(path.stem)
    assert data["what"] == path.stem
    assert data["verdict"]["ok"], data["verdict"]["why"]


def test_the_readme_says_what_the_records_say() -> None:
    text = tables.README.read_text()
    assert {match[1] for match in tables.BLOCK.findall(text)} == set(tables.FIGURES)
    assert tables.filled(text) == text, "run python bench/tables.py"


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "large", "xl", "huge"])
def test_a_presets_learning_rate_is_the_sweeps_best(preset: str) -> None:
    presets = json.loads((ROOT / "reference/tabgpt/presets.json").read_text())["presets"]
    assert presets[preset]["values"]["lr"] == lr_sweep.best(
        record.read("lr-sweep")["results"], preset
    )


def test_a_record_without_its_verdict_is_refused() -> None:
    with pytest.raises(record.jsonschema.ValidationError):
        record.jsonschema.validate({"schema": 1, "what": "x"}, record.SCHEMA)
