"""What bench/validate.py lets in, and the words with which it refuses the rest."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import validate  # noqa: E402

Record = dict[str, Any]
TICK = 2.0**-30
"""A clock's step that decimal text keeps exactly."""
SAMPLES = 9


def commit() -> str:
    """One of this repository's, where git tells."""
    command = ["git", "-C", str(BENCH), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "0123456789ab"


def kernel_row(case: str, variant: str, flops: float, ticks: int) -> Record:
    return {
        "kind": "kernel",
        "case": case,
        "group": "cube",
        "variant": variant,
        "software": False,
        "skipped": "",
        "ok": True,
        "error": 0.01,
        "flops": flops,
        "bytes": 1024,
        "calls": 64,
        "gpu_s": [(ticks + i) * TICK / 64 for i in range(SAMPLES)],
        "wall_s": [(ticks // 8000 + i) * 8192 * TICK / 64 for i in range(SAMPLES)],
        "disagree": False,
    }


def good() -> Record:
    """As a visitor's GPU may give it."""
    case = "matmul NN 256 256 256"
    skipped = kernel_row("matmul NN 512 512 512", "naive", 0, 0)
    skipped |= {"skipped": "one call would take about 2 s, at most 1 s", "ok": False, "calls": 0}
    skipped |= {"error": None, "gpu_s": [], "wall_s": []}
    return {
        "schema": 1,
        "what": "kernels",
        "command": "the page /bench",
        "commit": commit(),
        "date": "2026-11-30",
        "machine": {
            "cores": 8,
            "system": "Linux",
            "browser": "Chrome 156",
            "adapter": "nvidia ampere",
            "software_adapter": False,
            "limits": {"maxBufferSize": 268435456},
            "features": ["timestamp-query"],
        },
        "clock": {
            "wall": "performance.now",
            "wall_quantum_s": 8192 * TICK,
            "gpu": "timestamp-query",
            "gpu_quantum_s": TICK,
        },
        "results": [
            kernel_row(case, "naive", 2 * 256**3, 30_000_000),
            kernel_row(case, "tiled", 2 * 256**3, 20_000_000),
            skipped,
        ],
        "verdict": {"ok": True, "why": "2 of 2 results within their bound, 1 skipped"},
    }


def row(data: Record) -> Record:
    found: Record = data["results"][1]
    return found


REFUSED: dict[str, tuple[Callable[[Record], object], str]] = {
    "missing adapter": (lambda d: d["machine"].pop("adapter"), "'adapter' is a required property"),
    "empty adapter": (lambda d: d["machine"].update(adapter=" "), "names no adapter"),
    "software as hardware": (
        lambda d: d["machine"].update(adapter="google swiftshader"),
        "is software (swiftshader)",
    ),
    "software by another name": (
        lambda d: d["machine"].update(software_adapter=True),
        "says that the adapter 'nvidia ampere' is software, and software is called llvmpipe",
    ),
    "software's skipped rows": (
        lambda d: d["results"][2].update(skipped="not on a software adapter: 2.1 Gflop"),
        "was skipped as software's",
    ),
    "a row of another kind": (lambda d: row(d).update(software=True), "software is True"),
    "failed verdict": (
        lambda d: d["verdict"].update(ok=False, why="wrong: tiled"),
        "its verdict is not good: wrong: tiled",
    ),
    "verdict without ground": (
        lambda d: row(d).update(ok=False, gpu_s=[], wall_s=[]),
        "its verdict is good, and tiled of matmul NN 256 256 256 is not",
    ),
    "a wrong kernel's speed": (lambda d: row(d).update(ok=False), "although it was skipped or is"),
    "error over the bound": (lambda d: row(d).update(error=1.5), "its error is 1.5 of its bound"),
    "negative sample": (lambda d: row(d)["gpu_s"].__setitem__(0, -1e-3), "less than or equal"),
    "samples made up": (lambda d: row(d).update(gpu_s=[3.1e-4] * SAMPLES), "no whole steps"),
    "samples sped up": (
        lambda d: row(d).update(gpu_s=[s / 1024 for s in row(d)["gpu_s"]]),
        "a sample lasts",
    ),
    "samples left out": (
        lambda d: row(d).update(gpu_s=row(d)["gpu_s"][:1], wall_s=row(d)["wall_s"][:1]),
        "it has 1 samples; the sweep takes 3 to",
    ),
    "slow samples left out": (
        lambda d: row(d).update(gpu_s=row(d)["gpu_s"][:5], wall_s=row(d)["wall_s"][:5]),
        "it has 5 samples, and had time for 9",
    ),
    "a wall clock made up": (
        lambda d: row(d).update(gpu_s=[], wall_s=[3.1e-4] * SAMPLES),
        "its samples are no whole steps of 7.63e-06 s",
    ),
    "row left out": (
        lambda d: d["results"].pop(0),
        "its rows say '1 of 1 results within their bound, 1 skipped'",
    ),
    "faster than the wall clock": (
        lambda d: row(d).update(wall_s=[s / 2 for s in row(d)["gpu_s"]]),
        "its wall clock shows less time",
    ),
    "clocks at odds": (
        lambda d: row(d).update(wall_s=[3 * s for s in row(d)["gpu_s"]]),
        "do not bear out what it says of the two clocks",
    ),
    "no clock": (lambda d: d["clock"].update(gpu=""), "names no clock that gives them"),
    "more work than there is": (lambda d: row(d).update(flops=1e12), "it counts 1e+12 operations"),
    "unknown case": (lambda d: row(d).update(case="matmul NN 3 3 3"), "has no such case"),
    "unknown kernel": (lambda d: row(d).update(variant="magic"), "there is no such kernel"),
    "twice": (lambda d: d["results"].append(copy.deepcopy(row(d))), "is there twice"),
    "nothing measured": (
        lambda d: d.update(results=d["results"][2:]),
        "nothing in it was measured",
    ),
    "changed source": (lambda d: d.update(commit="0123456789ab+dirty"), "an unchanged checkout"),
    "no commit": (lambda d: d.update(commit="unknown"), "it names no commit"),
    "another repository's commit": (
        lambda d: d.update(commit="feedfacefeed"),
        "its commit feedfacefeed is none of this repository's",
    ),
    "another record": (lambda d: d.update(what="learns"), "it is a record of 'learns'"),
    "one more field": (lambda d: row(d).update(note="fast"), "Additional properties"),
}


def test_a_good_record_is_accepted() -> None:
    assert validate.problems(json.loads(json.dumps(good()))) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_record_is_refused_by_its_reason(name: str) -> None:
    tamper, says = REFUSED[name]
    data = good()
    tamper(data)
    found = validate.problems(json.loads(json.dumps(data)))
    assert any(says in problem for problem in found), found


def test_contributed_records_are_acceptable() -> None:
    contributed = BENCH / "records" / "contributed"
    refused = {path.name: validate.problems(validate.read(path)) for path in contributed.glob("*")}
    assert not any(refused.values()), refused


def test_the_command_says_which_file_and_why(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.json" for name in ("good", "nan", "cut")}
    files["good"].write_text(json.dumps(good()))
    files["nan"].write_text(json.dumps(good()).replace("0.01", "NaN", 1))
    files["cut"].write_text(json.dumps(good())[:-9])
    done = subprocess.run(
        [sys.executable, BENCH / "validate.py", *files.values()], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"{files['good']}: accepted" in done.stdout
    assert f"{files['nan']}: refused\n  it holds NaN" in done.stdout
    assert f"{files['cut']}: refused\n  it cannot be read" in done.stdout
