"""Damaged safetensors files, and damaged metadata, for both readers; 100,000 of each by

python tests/fuzz_checkpoints.py --count 100000
python tests/fuzz_metadata.py --count 100000
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import fuzz_checkpoints
import fuzz_metadata
import pytest
from fuzz_descriptions import make
from fuzz_metadata import judged

COUNT = 2000


def test_readers_of_safetensors() -> None:
    count: Counter[str] = Counter()
    found = list(fuzz_checkpoints.findings(1, range(COUNT), count))
    assert not found, "\n".join(found[:5])
    for seen in ("sound", "bad", "python accepted", "page accepted"):
        assert count[seen] > COUNT / 10, count


def test_readers_of_metadata() -> None:
    count: Counter[str] = Counter()
    found = list(fuzz_metadata.findings(1, range(COUNT), count))
    assert not found, "\n".join(found[:5])
    for seen in ("sound", "bad", "python accepted", "page accepted"):
        assert count[seen] > COUNT / 10, count


def test_a_lenient_reader_of_metadata_would_be_found(tmp_path: Path) -> None:
    """judge() on wrong answers: another value, and a bad description taken."""
    made = next(m for m in map(partial(make, 1), range(99)) if isinstance(judged(m), dict))
    truth, right = judged(made), fuzz_metadata.python_reads(made, tmp_path)
    assert isinstance(right, dict) and fuzz_metadata.judge(right, truth) == ""
    assert "('step', 7" in fuzz_metadata.judge({**right, "step": 7}, truth)
    assert "accepts what is bad" in fuzz_metadata.judge(right, "bad")
    assert "refuses what is sound" in fuzz_metadata.judge("no", truth)


@pytest.mark.parametrize("who", ["python", "page"])
def test_a_lenient_reader_would_be_found(tmp_path: Path, who: str) -> None:
    """judge() on wrong answers: a tensor of other values, one too few, a bad file taken."""
    header = {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    raw = len(text).to_bytes(8, "little") + text + b"\0\0\x80\x3f"
    truth = fuzz_checkpoints.independent(raw)
    assert truth is not None and truth.strict
    right = fuzz_checkpoints.python_reads(raw, tmp_path / "file")
    assert not isinstance(right, str)
    page = who == "page"
    assert fuzz_checkpoints.judge(right, truth, page) == ""
    other = {**right, "tensors": {"w": right["tensors"]["w"] + 1}}
    assert "reads [2.] for [1.]" in fuzz_checkpoints.judge(other, truth, page)
    assert "reads []" in fuzz_checkpoints.judge({**right, "tensors": {}}, truth, page)
    assert "accepts a bad file" in fuzz_checkpoints.judge(right, None, page)
    assert "refuses a sound file" in fuzz_checkpoints.judge("no", truth, page)
