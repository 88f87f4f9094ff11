"""A disk that fills up under a real process: `tabgpt train` goes on, and its run is not harmed.

A limit on the size of a process's files (RLIMIT_FSIZE) stands for the disk: it can be set and
lifted from outside, and needs no rights. Where a small file system can be mounted, that one fills
up too.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import metrics
from tabgpt.config import preset

STEPS = 1_000_000
"""More than a test waits for: a Ctrl-C ends its runs."""
OPTIONS = (
    *("train", "--preset", "tiny", "--ctx", 8, "--n-head", 2, "--d-model", 8, "--batch", 2),
    *("--dropout", 0.1, "--eval-interval", 50, "--eval-batches", 2, "--sample-interval", 0),
    *("--corpus", "tiny.txt", "--threads", 1, "--warmup-steps", 10),
    *("--autosave-seconds", 0.02, "--steps", STEPS),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.txt").write_text(tiny_run.TEXT, encoding="utf-8")
    return tmp_path


class Process:
    """`tabgpt train` whose output is read as it comes."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.error = folder / "stderr"
        with self.error.open("w") as error:
            self.process = subprocess.Popen(
                tiny_run.command(*arguments),
                cwd=folder,
                env=tiny_run.environment(),
                stdout=subprocess.DEVNULL,
                stderr=error,
            )

    def limit(self, size: int) -> None:
        """No file may become longer than this; longer ones may not grow."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, hard))

    def wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, self.error.read_text(), re.M)):
            assert self.process.poll() is None and time.monotonic() < deadline, self.told()
            time.sleep(0.005)
        return found[0]

    def interrupt(self, status: int) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(timeout=60) == status, self.told()

    def told(self) -> list[str]:
        return self.error.read_text().splitlines()


def wait_for_lines(run: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists() or len(metrics.read(run / "metrics.jsonl")) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_sound(run: Path) -> None:
    """Lines, weights and moments are those of a run that had room, up to its step."""
    found = checkpoints.load(run, moments=True)
    assert found.train is not None and found.run is not None and found.moments is not None
    text = tiny_run.corpus()
    values = found.config.to_dict() | found.train.to_dict() | found.run.to_dict()
    recipe = preset(**{name: value for name, value in values.items() if name != "vocab_size"})
    whole = tabgpt.train(recipe, text, threads=1)
    lines = list(islice(whole, found.step))
    recorded = metrics.read(run / "metrics.jsonl")
    assert [(m.step, m.loss, m.val_loss) for m in recorded] == [
        (m.step, m.loss, m.val_loss) for m in lines
    ]
    for name, array in {**found.tensors, **found.moments}.items():
        np.testing.assert_array_equal(array, whole.model.session.tensor(name), name)
    whole.close()
    names = ["config.json", "metrics.jsonl", "model.safetensors"]
    assert sorted(p.name for p in run.iterdir()) == [
        *names,
        f"optimizer-{found.step:06d}.safetensors",
    ]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_run_goes_on_while_nothing_can_be_written(folder: Path) -> None:
    """It tells that once a file, tells when it is over, and ends as a run that had room."""
    run = folder / "run"
    process = Process(folder, *OPTIONS, "--out", "run")
    try:
        wait_for_lines(run, 20)
        process.limit(1000)
        process.wait_for(r"^note: cannot write .*metrics\.jsonl: File too large")
        process.wait_for(r"^note: step \d+ is not saved: cannot write")
        saved = checkpoints.load(run, moments=True).step
        assert process.process.poll() is None
        assert checkpoints.load(run, moments=True).step == saved
        process.limit(resource.RLIM_INFINITY)
        process.wait_for(r"^note: the autosave works again: step \d+ is saved")
        process.interrupt(128 + signal.SIGINT)
    finally:
        process.process.kill()
    kinds = [line.split(":")[1].split(" ")[1] for line in process.told()]
    assert sorted(kinds) == ["cannot", "metrics.jsonl", "step", "the"], process.told()
    assert checkpoints.load(run).step > saved
    assert_sound(run)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_run_whose_last_save_fails_says_how_to_go_on(folder: Path) -> None:
    run = folder / "run"
    process = Process(folder, *OPTIONS, "--out", "run")
    try:
        wait_for_lines(run, 20)
        process.limit(1000)
        process.wait_for(r"^note: cannot write .*metrics\.jsonl: File too large")
        process.interrupt(1)
    finally:
        process.process.kill()
    found = re.search(
        r"^error: step \d+ is not saved: .*The checkpoint of step (\d+) in run is safe, "
        r"and tabgpt train --resume run goes on from there\.$",
        process.told()[-1],
    )
    assert found, process.told()
    assert checkpoints.load(run, moments=True).step == int(found[1])
    again = tabgpt.resume(run, threads=1)
    list(islice(again, 20))
    again.save()
    again.close()
    assert_sound(run)


def _mount(folder: Path) -> bool:
    """A file system of 16 MB, more than the run's metrics take while a test waits; False where this
    process may not mount one."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, b"size=16m") == 0


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    if sys.platform != "linux" or not _mount(disk):
        pytest.skip("this process may not mount a file system; the limit's tests stand for it")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_file_system_that_fills_up(folder: Path, small_disk: Path) -> None:
    process = Process(folder, *OPTIONS, "--out", "disk/run")
    run = small_disk / "run"
    try:
        wait_for_lines(run, 20)
        with (small_disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(os.urandom(1 << 16))
            except OSError:
                pass
        process.wait_for(r"^note: step \d+ is not saved: .*No space left on device")
        checkpoints.load(run, moments=True)
        (small_disk / "ballast").unlink()
        process.wait_for(r"^note: the autosave works again")
        process.interrupt(128 + signal.SIGINT)
    finally:
        process.process.kill()
    assert_sound(run)
