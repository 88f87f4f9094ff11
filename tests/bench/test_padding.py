"""Padded products against those as they are: both right, in turns, through wgpu-py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_both_ways_are_right_and_timed() -> None:
    """A process of its own: Naga may abort."""
    command = [sys.executable, ROOT / "bench/padding.py", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "finds no GPU adapter" in done.stderr and not os.environ.get("TABGPT_NEEDS_GPU"):
        pytest.skip("no GPU adapter")
    assert done.returncode == 0, done.stderr
    assert "matmul NN 33 18 21: " in done.stdout
    assert "largest share of the bound that a result used: 0.0" in done.stdout
