"""Accepts or refuses a contributed record of the kernel sweep: python bench/validate.py FILE...

A record is accepted where it is one (bench/schema.json), says on which GPU and at which
commit of this repository it was made, has a good verdict that its rows bear out, and where
its samples are such as the sweep takes: of the cases, the length and the number that
sweep.json says, whole steps of the clock that it names. That keeps mistakes out, and
careless inventions; no file can prove where it was made.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import record
from tabgpt import _core
from tabgpt.config import preset, preset_names
from tabgpt.sweep.definition import definition
from tabgpt.sweep.record import STOPPED, verdict
from tabgpt.sweep.stage import Row, disagree, variants
from tabgpt.sweep.steps import step_flops

Record = dict[str, Any]
RULES = definition()
NO_LIMIT = float(1 << 40)

SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "softpipe", "swiftshader", "warp", "basic render")
"""Adapters that compute on the CPU say so by these names."""
MOST_RATE = 1e15
"""Float operations a second that no single GPU reaches in float32."""
WALL_SLACK = 0.95
"""The wall clock holds the GPU's time and more; the two run a little apart."""
TICK_SLACK = 1e-3
"""Of a clock's step: rounding of a decimal number."""
PAGE_CLOCK = "performance.now"
"""Browsers let it stand still between steps; Python's clock has no such steps."""
PAGE_ROUNDING = 2e-6
"""Of a length: the page finds the clock's step as a difference of two large numbers."""
GPU_ROUNDING = 1e-12
"""Of a length by timestamps, whose step is a whole number of nanoseconds."""
TIME_SLACK = 0.5
"""Of the samples that a row had time for: a machine may grow slower while it is measured."""
NOT_ON_SOFTWARE = "not on a software adapter"
"""How a row begins that such an adapter is spared."""


def problems(data: Any) -> list[str]:
    """Why a record is refused, in words; none where it is accepted."""
    try:
        jsonschema.validate(data, record.SCHEMA)
    except jsonschema.ValidationError as error:
        where = "/".join(map(str, error.absolute_path)) or "the record"
        return [f"{where}: {error.message[:300]}"]
    if data["what"] != "kernels":
        return [f"it is a record of {data['what']!r}; contributed are those of the kernel sweep"]
    return [*_origin(data), *_verdict(data), *_all_rows(data)]


def _origin(data: Record) -> Iterator[str]:
    commit, machine = data["commit"], data["machine"]
    if commit == "unknown":
        yield "it names no commit: build the page, or install the package, from a git checkout"
    elif commit.endswith("+dirty"):
        yield f"its commit is {commit}: measure an unchanged checkout"
    elif _is_foreign(commit):
        yield f"its commit {commit} is none of this repository's: measure one that is"
    if not machine["adapter"].strip():
        yield "it names no adapter: a figure without its GPU says nothing"
    named = next((n for n in SOFTWARE_NAMES if n in machine["adapter"].lower()), None)
    if named is not None and not machine["software_adapter"]:
        yield (
            f"the adapter {machine['adapter']!r} is software ({named}), and the record says that "
            f"it is hardware"
        )
    if named is None and machine["software_adapter"]:
        yield (
            f"the record says that the adapter {machine['adapter']!r} is software, and software is "
            f"called {', '.join(SOFTWARE_NAMES[:-1])} or {SOFTWARE_NAMES[-1]}"
        )
    for row in data["results"]:
        if row["software"] != machine["software_adapter"]:
            yield f"{_name(row)}: software is {row['software']}, of the machine it is not"
            break
        if row["skipped"].startswith(NOT_ON_SOFTWARE) and not row["software"]:
            yield f"{_name(row)} was skipped as software's, and the adapter is hardware"
            break


def _is_foreign(commit: str) -> bool:
    """Whether git, where there is one with the whole history, does not know the commit."""

    def git(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["git", "-C", str(record.ROOT), *words], capture_output=True, text=True
        )
        return done.returncode, done.stdout.strip()

    try:
        status, shallow = git("rev-parse", "--is-shallow-repository")
        return (status, shallow) == (0, "false") and git("cat-file", "-e", f"{commit}^{{commit}}")[
            0
        ] != 0
    except OSError:
        return False


def _verdict(data: Record) -> Iterator[str]:
    measured = [row for row in data["results"] if not row["skipped"]]
    wrong = [row for row in measured if not row["ok"]]
    if not data["verdict"]["ok"]:
        yield f"its verdict is not good: {data['verdict']['why']}"
    elif wrong:
        yield f"its verdict is good, and {_name(wrong[0])} is not"
    if not measured:
        yield "nothing in it was measured"
    stopped = data["verdict"]["why"].endswith(STOPPED)
    why = verdict([Row(**row) for row in data["results"]], stopped)["why"]
    if data["verdict"]["why"] != why:
        yield f"its verdict says {data['verdict']['why']!r}, and its rows say {why!r}"


def _all_rows(data: Record) -> Iterator[str]:
    seen = set()
    brief = data["verdict"]["why"].endswith(STOPPED) or "--quick" in data["command"].split()
    for row in data["results"]:
        key = row["case"], row["variant"]
        if key in seen:
            yield f"{_name(row)} is there twice"
        seen.add(key)
        found = [*_identity(row), *_samples(row, data["clock"], brief)]
        yield from (f"{_name(row)}: {problem}" for problem in found)


def _name(row: Record) -> str:
    return f"{row['variant']} of {row['case']}"


def _identity(row: Record) -> Iterator[str]:
    """Is it a case of the sweep, by a kernel that there is, with its count of operations?"""
    if row["kind"] == "step":
        if row["case"] not in preset_names():
            yield "there is no such preset"
            return
        expected = step_flops(preset(row["case"]), RULES.vocab_size)
    else:
        if row["case"] not in {case.op for case in RULES.cases}:
            yield "sweep.json has no such case"
            return
        family = row["case"].partition(" ")[0]
        if (family, row["variant"]) not in {(v.family, v.name) for v in variants()}:
            yield "there is no such kernel"
        expected = json.loads(_core.GpuOp(row["case"]).plan("", NO_LIMIT, NO_LIMIT))["flops"]
    if not row["skipped"] and not math.isclose(row["flops"], expected, rel_tol=1e-9):
        yield f"it counts {row['flops']:g} operations, and there are {expected:g}"


def _samples(row: Record, clock: Record, brief: bool) -> Iterator[str]:
    gpu, wall, calls = row["gpu_s"], row["wall_s"], row["calls"]
    if row["skipped"] or not row["ok"]:
        if gpu or wall:
            yield "it has samples although it was skipped or is wrong"
        return
    if row["error"] is None or not row["error"] <= RULES.bounds.error:
        yield f"it counts as right, and its error is {row['error']} of its bound"
    if not RULES.bounds.least_samples <= len(wall) <= RULES.timing.samples:
        yield (
            f"it has {len(wall)} samples; the sweep takes {RULES.bounds.least_samples} to "
            f"{RULES.timing.samples}"
        )
        return
    if calls < 1:
        yield "its samples hold no call"
        return
    if gpu and clock["gpu"] == "":
        yield "it has timestamps, and the record names no clock that gives them"
    quantum = (clock["gpu_quantum_s"] or 0) if gpu else clock["wall_quantum_s"]
    least = max(RULES.timing.least_sample_s, RULES.timing.least_quanta * quantum)
    shortest = calls * min(gpu or wall)
    if row["kind"] == "kernel" and shortest < least * WALL_SLACK:
        yield f"a sample lasts {shortest:.3g} s; at least {least:.3g} s are due"
    if len(gpu) == len(wall) and any(g * WALL_SLACK > w for g, w in zip(gpu, wall, strict=True)):
        yield "its wall clock shows less time than the GPU's own"
    had_time = min(
        RULES.timing.samples, _fitting(TIME_SLACK * RULES.bounds.most_row_s, calls, gpu or wall)
    )
    if row["kind"] == "kernel" and len(wall) < had_time and not brief:
        yield f"it has {len(wall)} samples, and had time for {had_time}"
    yield from _ticks(gpu, calls, clock["gpu_quantum_s"], GPU_ROUNDING)
    if clock["wall"] == PAGE_CLOCK:
        yield from _ticks(wall, calls, clock["wall_quantum_s"], PAGE_ROUNDING)
    if row["disagree"] != disagree(gpu, wall, RULES.bounds.clocks_factor):
        yield "its samples do not bear out what it says of the two clocks"
    rate = row["flops"] / statistics.median(gpu or wall)
    if rate > MOST_RATE:
        yield f"{rate:.3g} operations a second are more than any GPU does"


def _fitting(seconds: float, calls: int, samples: list[float]) -> int:
    """Samples that have room in that time."""
    return int(seconds / (calls * statistics.median(samples)))


def _ticks(
    samples: list[float], calls: int, quantum: float | None, rounding: float
) -> Iterator[str]:
    """A difference of two readings of a clock is a whole number of its steps."""
    if not samples or quantum is None:
        return
    steps = [calls * sample / quantum for sample in samples]
    if max(abs(n - round(n)) - rounding * n for n in steps) > TICK_SLACK:
        yield f"its samples are no whole steps of {quantum:.3g} s"


def read(path: Path) -> Any:
    """A file's JSON; ValueError in words where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it cannot be read: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is no JSON")


def main() -> None:
    """Exit status 1 where one is refused."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    refused = False
    for name in sys.argv[1:]:
        try:
            found = problems(read(Path(name)))
        except ValueError as error:
            found = [str(error)]
        print(f"{name}: {'refused' if found else 'accepted'}")
        for problem in found:
            print(f"  {problem}")
        refused = refused or bool(found)
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
