"""Restarts leave a process with what it held before: heap, open files, threads (tests/leaks.py)."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

LEAKS = Path(__file__).resolve().parents[1] / "leaks.py"
SLACK = {"heap": 32 * 2**10, "mapped": 2**21, "resident": 2**21}
"""Bytes over two restarts: Python's own caches, and what malloc keeps for the next round. A native
session has 1.4 MB of heap, and a thread that is left alone maps 8 MB for its stack."""


def grown(
    before: dict[str, int], after: dict[str, int], when: tuple[str, str] = ("", "")
) -> list[str]:
    return [
        kind
        for kind, slack in SLACK.items()
        if after[when[1] + kind] - before[when[0] + kind] > slack
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc 2.33 counts its heap"
)
@pytest.mark.parametrize(
    ("what", "backend"), [("session", "native"), ("run", "native"), ("session", "numpy")]
)
def test_restarts_leave_nothing_behind(what: str, backend: str) -> None:
    """200 steps, and that three times more."""
    command = [sys.executable, str(LEAKS), what, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, *restarts = json.loads(done.stdout)
    for after in restarts:
        assert (after["files"], after["threads"]) == (first["files"], first["threads"])
    assert grown(restarts[0], restarts[-1]) == [], restarts
    for after in restarts if what == "session" else []:
        assert grown(after, after, ("early ", "late ")) == [], after
