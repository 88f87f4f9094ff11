"""Restarts of a GPU session leave a process with what it held before, and the GPU with nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import tiny_run
import vulkan

HEAP_SLACK = 64 << 10
"""Bytes over a restart: Python's own caches. A session holds 50 MB here."""

PROGRAM = """
import json, sys
import leaks, wgpu
from tabgpt.gpu.adapter import find_adapter
find_adapter()
leaks.SIZES["wgpu"] = {"ctx": 8, "n_layer": 1, "n_head": 2, "d_model": 8, "batch_size": 2}
held = leaks.held
def on_gpu():
    counts = wgpu.diagnostics.get_dict()["wgpu_native_counts"]
    return {name: count["count"] for name, count in counts.items() if name != "total"}
leaks.held = lambda: {**held(), "gpu": on_gpu()}
print(json.dumps([leaks.session_round("wgpu", None) | leaks.held() for _ in range(4)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_restarts_leave_nothing_behind() -> None:
    """200 steps, and that three times more; objects as the GPU's library counts them."""
    found = os.pathsep.join(sys.path)
    env = tiny_run.environment(**vulkan.environment()) | {"PYTHONPATH": found}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if "finds no GPU adapter" in done.stderr and not os.environ.get("TABGPT_NEEDS_GPU"):
        pytest.skip("no GPU adapter")
    assert done.returncode == 0, done.stderr
    first, *restarts = json.loads(done.stdout)
    for after in (first, *restarts):
        assert not any(after["gpu"].values()), after["gpu"]
        assert after["late gpu"]["Buffer"] > 0
        for kind in ("gpu", "files", "threads"):
            assert after[f"late {kind}"] == after[f"early {kind}"] == first[f"early {kind}"], kind
            assert after[kind] == first[kind], kind
    assert restarts[-1]["heap"] - restarts[0]["heap"] < HEAP_SLACK
