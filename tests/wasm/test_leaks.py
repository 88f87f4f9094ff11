"""A session that is closed gives back all that it took: WASM heap, threads, handles, JavaScript."""

from __future__ import annotations

import json
import subprocess

import pytest
from remote import NODE, ROOT

JS_BYTES = 200_000
"""V8 compiles and forgets on its own; three lives leave less than this behind."""


@pytest.mark.parametrize("build", ["scalar", "relaxed-threads"])
def test_three_restarts_leave_everything_flat(build: str) -> None:
    command = [str(NODE), "--expose-gc", str(ROOT / "tests/wasm/leaks.ts"), build]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    warm, *restarts = json.loads(done.stdout)
    assert len(restarts) == 3
    for after in restarts:
        for what in ("heapBytes", "memoryBytes", "resources"):
            assert after[what] == warm[what], what
        for what in ("heapUsed", "arrayBuffers"):
            assert after[what] <= warm[what] + JS_BYTES, what
