"""Killed runs go on to the bits of the run that was never killed: a few of tests/kills.py.

python tests/kills.py --count 200 --points
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).resolve().parents[1] / "kills.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks its runs")
@pytest.mark.parametrize(
    ("backend", "arguments"),
    [
        ("native", ["--count", "12"]),
        ("numpy", ["--count", "4"]),
        ("native", ["--points", "--every", "7"]),
    ],
)
def test_killed_runs_go_on(backend: str, arguments: list[str]) -> None:
    """The moments, and the first of the calls, are chosen by the date."""
    command = [sys.executable, str(KILLS), "--backend", backend, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["survived"]
