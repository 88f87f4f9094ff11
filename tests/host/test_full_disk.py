"""A disk that takes no more: training goes on, says so once, and loses nothing of the run."""

from __future__ import annotations

import dataclasses
import errno
import os
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import metrics, safetensors_file
from tabgpt.errors import CheckpointError
from tabgpt.run import Run

ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.txt"
    file.write_text(tiny_run.TEXT, encoding="utf-8")
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


class Disk:
    """Takes everything until `error` is set, and then `room` bytes of metrics.jsonl more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        self.room = 0
        self.only: str | None = None
        """The one file that does not fit; None: none does."""
        self._commit, self._unlink = safetensors_file.commit, Path.unlink
        for module in (safetensors_file, checkpoints, metrics):
            monkeypatch.setattr(module, "commit", self.commit)
        monkeypatch.setattr(metrics, "os", self)
        monkeypatch.setattr(Path, "unlink", lambda path, **options: self.unlink(path, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _refuse(self, name: str = "") -> None:
        if self.error and self.only in (None, name):
            raise OSError(self.error, os.strerror(self.error))

    def commit(self, partial: Path, path: Path) -> None:
        self._refuse(path.name)
        self._commit(partial, path)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.error and self.only is None and self.room:
            data, self.room = data[: self.room], 0
        else:
            self._refuse()
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._refuse()
        os.fsync(descriptor)

    def unlink(self, path: Path, **options: Any) -> None:
        if self.error == errno.EROFS:
            self._refuse()
        self._unlink(path, **options)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def start(text: Path, out: Path, backend: str = "native", **overrides: Any) -> tuple[Run, list]:
    """A run that is saved after every step, and what it tells."""
    recipe = tiny_run.recipe(**{"autosave_seconds": 1e-9, **overrides})
    run = tabgpt.train(recipe, text, backend=backend, out=out, threads=1)
    told: list[str] = []
    run.tell = told.append
    return run, told


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def recorded(folder: Path) -> list[metrics.Metrics]:
    lines = metrics.read(folder / "metrics.jsonl")
    return [dataclasses.replace(line, tokens_per_s=0, wall_s=0) for line in lines]


def assert_same_run(a: Path, b: Path) -> None:
    assert recorded(a) == recorded(b)
    left, right = contents(a), contents(b)
    assert left.keys() == right.keys()
    assert [n for n in left if n != "metrics.jsonl" and left[n] != right[n]] == []


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_training_outlives_a_disk_that_takes_nothing(
    text: Path, tmp_path: Path, out: Path, disk: Disk, error: int
) -> None:
    list(start(text, tmp_path / "whole")[0])
    run, told = start(text, out)
    list(islice(run, 5))
    before = contents(out)
    disk.error = error
    assert [line.step for line in islice(run, 9)] == list(range(6, 15))
    assert (run.saved_step, run.step) == (5, 14)
    assert {n: raw for n, raw in contents(out).items() if "partial" not in n} == before
    lines, autosave = told
    assert f"cannot write {out / 'metrics.jsonl'}: {os.strerror(error)}" in lines
    assert "Training goes on: the lines wait in memory" in lines
    assert autosave.startswith("step 6 is not saved: cannot write")
    assert f"The checkpoint of step 5 in {out} is safe" in autosave
    assert "Training goes on: the next autosave, in 1e-09 s, tries again" in autosave
    disk.error = 0
    next(run)
    assert told[2:] == [
        "metrics.jsonl is written again, with all its lines",
        "the autosave works again: step 15 is saved",
    ]
    assert checkpoints.load(out, moments=True).step == len(recorded(out)) == 15
    list(run)
    assert len(told) == 4
    assert_same_run(tmp_path / "whole", out)


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_kill_while_the_disk_is_full_resumes_from_the_last_checkpoint(
    text: Path, tmp_path: Path, out: Path, disk: Disk, room: int
) -> None:
    """With half a line at the end of metrics.jsonl, and moments that are not removed."""
    list(start(text, tmp_path / "whole")[0])
    run, _ = start(text, out)
    list(islice(run, 5))
    disk.error, disk.room = errno.ENOSPC, room
    list(islice(run, 4))
    run.close()
    disk.error = 0
    again = tabgpt.resume(out, threads=1)
    assert again.step == len(recorded(out)) == 5
    list(again)
    assert_same_run(tmp_path / "whole", out)


def test_no_checkpoint_is_committed_without_its_lines(text: Path, out: Path, disk: Disk) -> None:
    run, told = start(text, out)
    list(islice(run, 3))
    (out / "metrics.jsonl").rename(out / "elsewhere")
    (out / "metrics.jsonl").symlink_to("/dev/full")
    assert run._metrics is not None
    run._metrics.close()  # the next line is written by the new name
    list(islice(run, 2))
    assert run.saved_step == checkpoints.load(out, moments=True).step == 3
    (out / "elsewhere").replace(out / "metrics.jsonl")
    run._metrics.close()
    next(run)
    assert checkpoints.load(out, moments=True).step == len(recorded(out)) == 6
    assert len(told) == 4


def test_the_last_save_fails_aloud_and_may_be_repeated(
    text: Path, tmp_path: Path, out: Path, disk: Disk
) -> None:
    list(start(text, tmp_path / "whole")[0])
    run, told = start(text, out, autosave_seconds=0)
    list(islice(run, 12))
    run.save()
    disk.error, disk.only = errno.ENOSPC, "model.safetensors"
    with pytest.raises(CheckpointError) as caught:
        list(run)
    message = str(caught.value)
    assert message.startswith(f"step 30 is not saved: cannot write {out / 'model.safetensors'}")
    assert f"step 12 in {out} is safe, and tabgpt train --resume {out} goes on" in message
    assert told == []
    assert checkpoints.load(out, moments=True).step == 12
    disk.error = 0
    run.save()
    run.close()
    assert checkpoints.load(out, moments=True).step == len(recorded(out)) == 30


def test_lines_that_may_not_have_reached_the_disk_are_written_anew(
    text: Path, tmp_path: Path, out: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync(2) Linux takes the file for clean: the next one would succeed."""
    list(start(text, tmp_path / "whole")[0])
    run, told = start(text, out)
    list(islice(run, 4))
    inode = (out / "metrics.jsonl").stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "fsync", lambda disk, _: (_ for _ in ()).throw(OSError(errno.EIO, "")))
        next(run)
    assert len(told) == 1 and run.saved_step == 4
    next(run)
    assert (out / "metrics.jsonl").stat().st_ino != inode
    assert len(recorded(out)) == run.saved_step == 6
    list(run)
    assert_same_run(tmp_path / "whole", out)


def test_an_evaluation_made_up_for_on_a_full_disk(
    text: Path, tmp_path: Path, out: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is replaced when there is room, whichever lines came after it."""
    list(start(text, tmp_path / "whole")[0])
    run, _ = start(text, out)
    with monkeypatch.context() as patch:
        patch.setattr(
            run.model.session, "evaluate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            list(run)
    disk.error = errno.ENOSPC
    assert [line.step for line in islice(run, 4)] == [10, 11, 12, 13]
    assert recorded(out)[-1].step == 10 and recorded(out)[-1].val_loss is None
    disk.error = 0
    list(run)
    assert_same_run(tmp_path / "whole", out)


def test_a_run_from_python_warns(text: Path, out: Path, disk: Disk) -> None:
    run = tabgpt.train(tiny_run.recipe(), text, backend="numpy", out=out)
    disk.error = errno.ENOSPC
    with pytest.warns(RuntimeWarning, match=r"metrics\.jsonl: No space left") as caught:
        list(islice(run, 3))
    assert [Path(w.filename).name for w in caught] == ["test_full_disk.py"]
    disk.error = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(run)
    assert len(recorded(out)) == 30


def test_a_run_outlives_an_overwrite_that_fails(text: Path, out: Path, disk: Disk) -> None:
    list(start(text, out, "numpy", steps=3)[0])
    before = contents(out)
    disk.error, disk.only = errno.ENOSPC, "model.safetensors"
    with pytest.raises(CheckpointError, match="What was there before is untouched"):
        tabgpt.train(tiny_run.recipe(), text, backend="numpy", out=out, overwrite=True)
    assert contents(out) == before


def test_a_save_that_fails_leaves_no_moments_behind(text: Path, out: Path, disk: Disk) -> None:
    run, _ = start(text, out, "numpy", autosave_seconds=0)
    list(islice(run, 2))
    disk.error, disk.only = errno.ENOSPC, "model.safetensors"
    with pytest.raises(CheckpointError, match="No space left"):
        run.save()
    assert sorted(out.glob("optimizer-*")) == [out / "optimizer-000000.safetensors"]
    run.saved_step = None
    run.model.about.step = 0
    with pytest.raises(CheckpointError):
        run.save()  # of the step that is there: its moments stay
    assert checkpoints.load(out, moments=True).step == 0
