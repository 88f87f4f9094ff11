"""Damaged safetensors files for both readers; 100,000 by

python tests/fuzz_checkpoints.py --count 100000
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import fuzz_checkpoints
import pytest

COUNT = 2000


def test_readers_of_safetensors() -> None:
    count: Counter[str] = Counter()
    found = list(fuzz_checkpoints.findings(1, range(COUNT), count))
    assert not found, "\n".join(found[:5])
    for seen in ("sound", "bad", "python accepted", "page accepted"):
        assert count[seen] > COUNT / 10, count


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
