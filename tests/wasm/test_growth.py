"""A WASM memory that grows while threads run: in Node here, in Chromium by tests/browser."""

from __future__ import annotations

import json
import subprocess

import pytest
from growth import BUILDS, judge
from remote import NODE, ROOT


@pytest.mark.parametrize("build", BUILDS)
def test_losses_are_the_oracles_where_memory_grows_under_the_threads(build: str) -> None:
    command = [str(NODE), str(ROOT / "tests/wasm/growth_node.ts"), build]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    judge(json.loads(done.stdout))
