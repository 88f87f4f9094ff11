"""Ctrl-C and SIGKILL on real processes: nothing is lost but what came after the last save."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import tiny_run
from tabgpt import checkpoint as checkpoints

STEPS = 120
OPTIONS = (
    *("train", "--preset", "tiny", "--ctx", 8, "--n-head", 2, "--d-model", 8, "--batch", 2),
    *("--dropout", 0.1, "--eval-interval", 40, "--eval-batches", 2, "--sample-interval", 0),
    *("--corpus", "tiny.txt", "--steps", STEPS, "--threads", 1, "--warmup-steps", 10),
)
BACKENDS = ("native", "numpy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.txt").write_text(tiny_run.TEXT, encoding="utf-8")
    return tmp_path


def popen(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        tiny_run.command(*arguments),
        cwd=folder,
        env=tiny_run.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines_of(run: Path) -> list[dict[str, float]]:
    """Every line but its times; a line cut short by a kill is left out."""
    file = run / "metrics.jsonl"
    raw = file.read_text().splitlines(keepends=True) if file.exists() else []
    lines = [json.loads(line) for line in raw if line.endswith("\n")]
    return [
        {k: v for k, v in line.items() if k not in ("wall_s", "tokens_per_s")} for line in lines
    ]


def wait_for_lines(run: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while len(lines_of(run)) < count:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.01)


def finish(folder: Path, *arguments: object) -> str:
    done = tiny_run.tabgpt(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_same(folder: Path, other: Path) -> None:
    """The lines and the files of the two runs: all the same bits."""
    assert lines_of(folder) == lines_of(other)
    for name in ("model.safetensors", f"optimizer-{STEPS:06d}.safetensors", "config.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in other.iterdir())


@pytest.mark.parametrize("backend", BACKENDS)
def test_kills_at_random_moments_change_nothing(folder: Path, backend: str) -> None:
    """Autosaves so often that many kills fall into one."""
    options = (*OPTIONS, "--backend", backend, "--autosave-seconds", "0.005")
    finish(folder, *options, "--out", "whole")
    rng = random.Random(time.strftime("%Y-%m-%d"))
    process = popen(folder, *options, "--out", "killed")
    kills, before = 0, 0
    while True:
        target = min(before + rng.randint(15, 40), STEPS)
        wait_for_lines(folder / "killed", target, process)
        time.sleep(rng.random() * 0.02)
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        about = checkpoints.load(folder / "killed", moments=True)
        lines = lines_of(folder / "killed")
        assert about.step <= len(lines)
        before = about.step
        if target == STEPS or kills == 3:
            break
        process = popen(folder, "train", "--resume", "killed", "--threads", 1)
    assert kills >= 2
    finish(folder, "train", "--resume", "killed", "--threads", 1)
    assert_same(folder / "whole", folder / "killed")


def test_a_resume_removes_what_a_kill_left_of_another_save(folder: Path) -> None:
    """A kill between the last save's commit and its end: no later save clears up after it."""
    options = (*OPTIONS, "--autosave-seconds", 0)
    finish(folder, *options, "--out", "whole")
    finish(folder, *options, "--out", "killed")
    for name in ("optimizer-000095.safetensors", ".metrics.jsonl.partial"):
        (folder / "killed" / name).write_bytes(b"")
    for name in ("optimizer-000101.safetensors", "model.safetensors"):
        work = folder / "killed" / f".{name}.partial"
        work.mkdir()
        (work / ".tmpQcSwbw").write_bytes(b"the library's own beginning")
    finish(folder, "train", "--resume", "killed", "--threads", 1)
    assert_same(folder / "whole", folder / "killed")


@pytest.mark.parametrize(
    ("backend", "number"),
    [("native", signal.SIGINT), ("native", signal.SIGTERM), ("numpy", signal.SIGINT)],
)
def test_ctrl_c_saves_and_says_how_to_resume(
    folder: Path, backend: str, number: signal.Signals
) -> None:
    options = (*OPTIONS, "--backend", backend, "--autosave-seconds", 0)
    process = popen(folder, *options, "--out", "run", "--steps", 100000)
    wait_for_lines(folder / "run", 15, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    saved = re.search(
        r"Saved step (\d+) of 100000\. Go on: tabgpt (train --resume run)$", output, re.M
    )
    assert saved, output
    step = int(saved[1])
    assert (
        step == checkpoints.load(folder / "run", moments=True).step == len(lines_of(folder / "run"))
    )
    assert "Traceback" not in output


def test_a_resume_after_ctrl_c_is_exact(folder: Path) -> None:
    options = (*OPTIONS, "--autosave-seconds", 0)
    finish(folder, *options, "--out", "whole")
    process = popen(folder, *options, "--out", "run")
    wait_for_lines(folder / "run", 60, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    step = len(lines_of(folder / "run"))
    if step < STEPS:  # a fast machine may have finished
        resumed = finish(folder, *output.split("tabgpt ")[-1].split(), "--threads", 1)
        assert f"resuming after step {step} of {STEPS}" in resumed
    assert_same(folder / "whole", folder / "run")


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_does_not_wait_for_an_evaluation(folder: Path, backend: str) -> None:
    """It takes a minute and more; what was interrupted is evaluated after the resume."""
    (folder / "tiny.txt").write_text(tiny_run.TEXT * 600, encoding="utf-8")
    options = (*OPTIONS, "--backend", backend, "--eval-interval", 2, "--eval-batches", 1000000)
    process = popen(folder, *options, "--out", "run")
    wait_for_lines(folder / "run", 1, process)
    time.sleep(1)  # into the evaluation
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    assert f"Saved step 2 of {STEPS}. Go on: tabgpt train --resume run" in output
    assert checkpoints.load(folder / "run", moments=True).step == len(lines_of(folder / "run")) == 2


def test_a_reader_that_goes_away_loses_no_step(folder: Path) -> None:
    """`tabgpt train | head -4`."""
    options = (*OPTIONS, "--autosave-seconds", 0, "--eval-interval", 40)
    process = popen(folder, *options, "--steps", 100000, "--out", "run")
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=60)
    about = checkpoints.load(folder / "run", moments=True)
    assert about.step == len(lines_of(folder / "run")) >= 40


def popen_where_hangups(handler: signal.Handlers, *arguments: object, folder: Path) -> Any:
    """A process that finds SIGHUP so: the suite itself may run under nohup."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        return popen(folder, *arguments)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_saves_and_nohup_does_not_mind(folder: Path) -> None:
    options = (*OPTIONS, "--autosave-seconds", 0, "--steps", 100000, "--out", "run")
    process = popen_where_hangups(signal.SIG_DFL, *options, folder=folder)
    wait_for_lines(folder / "run", 15, process)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGHUP
    assert checkpoints.load(folder / "run", moments=True).step == len(lines_of(folder / "run"))
    resume = ("train", "--resume", "run", "--threads", 1)
    process = popen_where_hangups(signal.SIG_IGN, *resume, folder=folder)
    lines = len(lines_of(folder / "run"))
    process.send_signal(signal.SIGHUP)
    wait_for_lines(folder / "run", lines + 15, process)
    process.kill()
    process.communicate()
