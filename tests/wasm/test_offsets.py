"""Addresses above 2 GiB and above 4 GiB, in Node here, in Chromium by tests/browser."""

from __future__ import annotations

import json
import subprocess

import pytest
from offsets import CASES, judge
from remote import NODE, ROOT


@pytest.mark.parametrize(("build", "edge"), CASES)
def test_both_ends_of_memory_above_the_edge_are_written_and_read(build: str, edge: int) -> None:
    command = [str(NODE), str(ROOT / "tests/wasm/offsets_node.ts"), build, str(edge)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    judge(json.loads(done.stdout), build, edge)
