"""A run's folder: what is there is kept, and one process trains in it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import metrics
from tabgpt.errors import CheckpointError
from tabgpt.run import Run

BACKENDS = ("numpy", "native")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.txt"
    file.write_text(tiny_run.TEXT, encoding="utf-8")
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


def start(text: Path, out: Path, backend: str = "numpy", **overrides: Any) -> Run:
    return tabgpt.train(tiny_run.recipe(**overrides), text, backend=backend, out=out, threads=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def recorded(folder: Path) -> list[metrics.Metrics]:
    lines = metrics.read(folder / "metrics.jsonl")
    return [dataclasses.replace(line, tokens_per_s=0, wall_s=0) for line in lines]


# -- one process a folder --

IN_ANOTHER_PROCESS = """
import sys, tabgpt
try:
    tabgpt.resume(sys.argv[1], threads=1)
except tabgpt.TabgptError as error:
    print(error)
else:
    print("resumed")
"""


def resume_elsewhere(out: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(out)],
        env=tiny_run.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_another_process_is_kept_out_until_the_run_is_closed_or_done(text: Path, out: Path) -> None:
    run = start(text, out, steps=6)
    next(run)
    run.save()
    refusal = resume_elsewhere(out)
    assert refusal.startswith(f"another process trains in {out}")
    assert "wait for its end, stop it, or choose another --out" in refusal
    again = tabgpt.resume(out)  # within a process a run may replace another
    run.close()
    assert resume_elsewhere(out) == refusal
    list(again)
    assert resume_elsewhere(out) == "resumed\n"


def test_a_dropped_run_gives_its_folder_back(text: Path, out: Path) -> None:
    run = start(text, out)
    del run
    assert resume_elsewhere(out) == "resumed\n"


# -- an evaluation that is cut short --


def interrupt_evaluation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> float:
        assert run.evaluating
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run.model.session, "evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(run)
    assert not run.evaluating


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_resume_makes_up_for_an_evaluation_that_was_interrupted(
    text: Path, tmp_path: Path, out: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is interrupted again, and where it is the last one."""
    list(start(text, tmp_path / "whole", backend))
    run = start(text, out, backend)
    for step in (10, 10, 20, 30, 30):
        if 0 < run.step < step:
            assert next(run).val_loss is not None
        interrupt_evaluation(run, monkeypatch)
        assert run.step == recorded(out)[-1].step == step and not run.done()
        run.save()
        run.close()
        run = tabgpt.resume(out, threads=1)
    assert recorded(out)[-1].val_loss is None
    (last,) = run
    assert (last.step, run.done()) == (30, True)
    assert recorded(out) == recorded(tmp_path / "whole")
    for name, raw in contents(tmp_path / "whole").items():
        assert name == "metrics.jsonl" or (out / name).read_bytes() == raw, name


def test_an_iteration_may_go_on_after_an_interrupted_evaluation(
    text: Path, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(start(text, tmp_path / "whole"))
    run = start(text, out)
    interrupt_evaluation(run, monkeypatch)
    assert [line.step for line in run] == list(range(10, 31))
    assert recorded(out) == recorded(tmp_path / "whole")


# -- what is there already --


def test_a_longer_run_is_known_at_once(text: Path, out: Path) -> None:
    list(start(text, out, steps=6))
    weights = checkpoints.load(out).tensors
    tabgpt.resume(out, extend_to=9).close()
    about = checkpoints.load(out, moments=True)
    assert about.train is not None and (about.step, about.train.steps) == (6, 9)
    assert all((about.tensors[name] == weights[name]).all() for name in weights)
    assert [line.step for line in tabgpt.resume(out)] == [7, 8, 9]


def test_a_config_of_something_else_is_not_replaced_unasked(text: Path, out: Path) -> None:
    out.mkdir()
    (out / "config.json").write_text('{"mine": 1}')
    with pytest.raises(CheckpointError, match=r"a config\.json of something else.*--overwrite"):
        start(text, out)
    assert contents(out) == {"config.json": b'{"mine": 1}'}
    tabgpt.train(tiny_run.recipe(), text, backend="numpy", out=out, overwrite=True).close()
    assert json.loads((out / "config.json").read_text())["model_type"] == "gpt2"


def test_a_start_that_was_killed_before_its_first_checkpoint_may_be_repeated(
    text: Path, out: Path
) -> None:
    start(text, out).close()
    for name in ("model.safetensors", "metrics.jsonl"):
        (out / name).unlink()
    start(text, out).close()
    assert checkpoints.load(out, moments=True).step == 0


def test_a_run_is_resumed_by_its_folder(text: Path, out: Path) -> None:
    start(text, out).close()
    with pytest.raises(CheckpointError, match=f"is a file; a run is resumed by its folder {out}"):
        tabgpt.resume(out / "model.safetensors")
