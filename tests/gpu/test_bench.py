"""`tabgpt bench` through wgpu-py: a record that its validator knows, a wrong kernel, a Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import vulkan

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import validate

CASE = ("--case", "NN 128 128 128", "--quick")

WRONG = """
from tabgpt.backends.native import _core
class GpuOp(_core.GpuOp):
    def check(self, variants, name, got):
        return 3.0 if "naive" in variants else super().check(variants, name, got)
_core.GpuOp = GpuOp
from tabgpt.cli import main
main()
"""


def start(folder: Path, *arguments: str, code: str = "") -> subprocess.Popen[str]:
    program = ["-c", code] if code else ["-m", "tabgpt"]
    return subprocess.Popen(
        [sys.executable, *program, "bench", "kernels", *arguments],
        cwd=folder,
        env={**os.environ, **vulkan.environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *arguments: str, code: str = "") -> tuple[int, str]:
    process = start(folder, *arguments, code=code)
    out, errors = process.communicate(timeout=300)
    if "no GPU adapter" in errors and not os.environ.get("TABGPT_NEEDS_GPU"):
        pytest.skip(errors)
    return process.returncode, out + errors


def record_of(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "record.json").read_text())
    return data


def test_a_sweep_leaves_a_record_of_software(tmp_path: Path) -> None:
    status, out = run(tmp_path, *CASE, "--peak-tflops", "1", "--out", "record.json")
    assert status == 0, out
    data = record_of(tmp_path)
    rows = {row["variant"]: row for row in data["results"]}
    assert {"naive", "tiled"} <= set(rows)
    assert all(row["ok"] and row["software"] and len(row["wall_s"]) == 3 for row in rows.values())
    assert out.count("[software]") == len(rows)
    # Only what the working tree is may be held against it.
    problems = [problem for problem in validate.problems(data) if "commit" not in problem]
    assert problems == []
    data["machine"]["software_adapter"] = False
    assert any("is software (llvmpipe)" in problem for problem in validate.problems(data))


def test_a_wrong_kernels_speed_is_not_shown(tmp_path: Path) -> None:
    status, out = run(tmp_path, *CASE, "--out", "record.json", code=WRONG)
    assert status == 1
    assert "WRONG, error 3 times its bound: its speed is not shown" in out
    row = next(row for row in record_of(tmp_path)["results"] if row["variant"] == "naive")
    assert not row["ok"] and row["wall_s"] == [] and row["gpu_s"] == []
    assert not record_of(tmp_path)["verdict"]["ok"]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    process = start(tmp_path, "--group", "cube", "--quick", "--out", "record.json")
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("matmul"):
            process.send_signal(signal.SIGINT)
            break
    out, errors = process.communicate(timeout=300)
    if "no GPU adapter" in errors and not os.environ.get("TABGPT_NEEDS_GPU"):
        pytest.skip(errors)
    assert process.returncode == 130, (seen, out, errors)
    data = record_of(tmp_path)
    assert "stopped before its end" in data["verdict"]["why"]
    assert any(row["wall_s"] for row in data["results"])
