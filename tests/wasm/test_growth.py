"""A WASM memory that grows while threads run: in Node here, in Chromium by tests/browser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from growth import BUILDS, MIDDLE_BUILDS, MIDDLE_STEPS, judge, middle
from remote import NODE, ROOT


def run(*arguments: str) -> dict[str, Any]:
    command = [str(NODE), str(ROOT / "tests/wasm/growth_node.ts"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("build", BUILDS)
def test_losses_are_the_oracles_where_memory_grows_under_the_threads(build: str) -> None:
    judge(run(build))


@pytest.mark.parametrize("build", MIDDLE_BUILDS)
def test_a_model_of_millions_grows_its_memory_and_has_the_native_losses(
    build: str, tmp_path: Path
) -> None:
    file = tmp_path / "trajectory.json"
    file.write_text(json.dumps(middle()))
    judge(run(build, str(file)), steps_that_grow=MIDDLE_STEPS)
