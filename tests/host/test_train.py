"""Runs: what they record, and that stopping, killing and resuming change nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import metrics, optim
from tabgpt.errors import CheckpointError, ConfigError, CorpusError, NonFiniteError
from tabgpt.run import Run

BACKENDS = ("numpy", "native")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.txt"
    file.write_text(tiny_run.TEXT, encoding="utf-8")
    return file


def start(text: Path, out: Path, backend: str, **overrides: Any) -> Run:
    return tabgpt.train(tiny_run.recipe(**overrides), text, backend=backend, out=out, threads=1)


def untimed(lines: list[metrics.Metrics]) -> list[metrics.Metrics]:
    return [dataclasses.replace(line, tokens_per_s=0, wall_s=0) for line in lines]


def recorded(out: Path) -> list[metrics.Metrics]:
    return untimed(metrics.read(out / "metrics.jsonl"))


def assert_same_run(a: Path, b: Path) -> None:
    """Weights, moments, metadata and metrics: all the same bits."""
    assert recorded(a) == recorded(b)
    names = sorted(p.name for p in a.iterdir())
    assert names == sorted(p.name for p in b.iterdir())
    for name in names:
        if name != "metrics.jsonl":
            assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_a_run_records_every_step(text: Path, tmp_path: Path, backend: str) -> None:
    run = start(text, tmp_path / "run", backend)
    lines = list(run)
    assert [line.step for line in lines] == list(range(1, 31))
    assert [line.step for line in lines if line.val_loss is not None] == [10, 20, 30]
    assert lines[-1].loss < lines[0].loss - 0.1
    assert lines[-1].val_loss == run.model.session.evaluate("val")
    assert lines[9].val_loss != lines[-1].val_loss
    assert metrics.read(tmp_path / "run" / "metrics.jsonl") == lines
    raw = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    keys = ["step", "loss", "lr", "grad_norm", "tokens_per_s", "wall_s"]
    assert list(json.loads(raw[0])) == keys
    assert list(json.loads(raw[9])) == [*keys, "val_loss"]
    assert all(a.wall_s <= b.wall_s for a, b in pairwise(lines))
    assert checkpoints.load(tmp_path / "run").step == 30


@pytest.mark.parametrize("stop", [0, 1, 13, 29, 30])
def test_resuming_is_exact(text: Path, tmp_path: Path, backend: str, stop: int) -> None:
    """Also where autosaves and samples came in between, and over several resumes."""
    list(start(text, tmp_path / "whole", backend))
    run = start(text, tmp_path / "parts", backend)
    for line in islice(run, stop):
        if line.step % 7 == 0:
            list(islice(run.model.session.generate([1, 2], 1.0), 5))
            run.save()
    run.save()
    run.close()
    again = tabgpt.resume(tmp_path / "parts", threads=1)
    assert again.step == stop and again.model.backend == backend
    list(islice(again, 4))
    again.save()
    again.close()
    list(tabgpt.resume(tmp_path / "parts", threads=1))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("tail", ["", '{"step": 18, "lo', "\0\0\0"])
def test_a_killed_runs_metrics_are_cut_back(
    text: Path, tmp_path: Path, backend: str, tail: str
) -> None:
    list(start(text, tmp_path / "whole", backend))
    run = start(text, tmp_path / "killed", backend)
    list(islice(run, 12))
    run.save()
    list(islice(run, 5))  # 17 lines, and a checkpoint of step 12
    run.close()
    with (tmp_path / "killed" / "metrics.jsonl").open("a") as file:
        file.write(tail)
    again = tabgpt.resume(tmp_path / "killed", threads=1)
    assert len(recorded(tmp_path / "killed")) == again.step == 12
    first = next(again)
    assert first.step == 13
    assert first.wall_s > metrics.read(tmp_path / "killed" / "metrics.jsonl")[11].wall_s
    list(again)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize(
    "line",
    ['{"step": 1}', "5", "null", "[" * 10_000, '{"step": "1"}', "{", '{"step": true}'],
)
def test_a_damaged_line_in_the_middle_is_refused(tmp_path: Path, line: str) -> None:
    whole = metrics.Metrics(2, 1.0, 1.0, 1.0, 1.0, 1.0).to_json()
    file = tmp_path / "metrics.jsonl"
    file.write_text(f"{line}\n{whole}\n")
    for read in (metrics.read, lambda path: metrics.cut_back(path, 1)):
        with pytest.raises(CheckpointError, match="line 1, is no line of metrics"):
            read(file)
    file.write_text(f"{whole}\n{line}")  # what a kill has cut short
    assert [m.step for m in metrics.read(file)] == [2]


def test_a_line_of_other_values_is_refused(tmp_path: Path) -> None:
    sound = {"step": 1, "loss": 1, "lr": 1.0, "grad_norm": 1.0, "tokens_per_s": 1.0, "wall_s": 1.0}
    file = tmp_path / "metrics.jsonl"
    for name, value in (("step", 1.5), ("loss", "1"), ("lr", None), ("val_loss", [])):
        file.write_text(json.dumps(sound) + "\n" + json.dumps({**sound, name: value}) + "\n")
        with pytest.raises(CheckpointError, match=f"line 2, is no line of metrics .{name} is "):
            metrics.read(file)


def test_the_thread_count_changes_no_bit(text: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        list(tabgpt.train(tiny_run.recipe(), text, out=tmp_path / str(threads), threads=threads))
    assert_same_run(tmp_path / "1", tmp_path / "3")


def test_another_backend_goes_on_with_a_run(text: Path, tmp_path: Path) -> None:
    whole = [line.loss for line in start(text, tmp_path / "whole", "numpy")]
    for first, second in (BACKENDS, BACKENDS[::-1]):
        run = start(text, tmp_path / first, first)
        list(islice(run, 15))
        run.save()
        rest = list(tabgpt.resume(tmp_path / first, backend=second))
        np.testing.assert_allclose([line.loss for line in rest], whole[15:], rtol=1e-5)
        assert checkpoints.load(tmp_path / first).backend == second


def test_autosave_by_seconds(text: Path, tmp_path: Path) -> None:
    run = start(text, tmp_path / "often", "numpy", autosave_seconds=1e-9)
    for line in islice(run, 3):
        assert run.saved_step == line.step
    run = start(text, tmp_path / "never", "numpy", autosave_seconds=0)
    list(islice(run, 3))
    assert run.saved_step == 0
    assert checkpoints.load(tmp_path / "never", moments=True).step == 0


def test_without_a_folder_nothing_is_written(text: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert len(list(tabgpt.train(tiny_run.recipe(steps=2), text, backend="numpy"))) == 2
    assert sorted(tmp_path.rglob("*")) == before


def break_weights(run: Run) -> None:
    session, name = run.model.session, "transformer.h.0.mlp.c_fc.weight"
    broken = session.tensor(name).copy()
    broken[0, 0] = np.inf
    session.set(name, broken)


def test_a_loss_that_is_not_finite_stops_the_run(text: Path, tmp_path: Path, backend: str) -> None:
    run = start(text, tmp_path / "run", backend, autosave_seconds=1e-9)
    list(islice(run, 4))
    break_weights(run)
    with pytest.raises(NonFiniteError) as caught:
        next(run)
    message = str(caught.value)
    assert "step 5: the loss is nan" in message
    assert f"checkpoint of step 4 in {tmp_path / 'run'} is safe" in message
    assert "lower lr (now 0.003)" in message
    with pytest.raises(CheckpointError, match="step 5 was not finite, so nothing is saved"):
        run.save()
    assert list(run) == []
    assert checkpoints.load(tmp_path / "run", moments=True).step == 4
    assert len(recorded(tmp_path / "run")) == 4
    assert next(tabgpt.resume(tmp_path / "run")).step == 5


def test_an_interrupted_step_is_not_saved(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception may leave the oracle with half of its tensors updated."""
    run = start(text, tmp_path / "run", "numpy")
    list(islice(run, 3))
    run.save()
    real = optim.adamw
    calls = iter(range(100))

    def interrupted(*arguments: Any, **options: Any) -> None:
        if next(calls) == 5:
            raise KeyboardInterrupt
        real(*arguments, **options)

    monkeypatch.setattr(optim, "adamw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(run)
    with pytest.raises(CheckpointError, match=r"step 4 was interrupted.*step 3 in .* is safe"):
        run.save()


def test_a_run_is_not_overwritten_unasked(text: Path, tmp_path: Path) -> None:
    list(start(text, tmp_path, "numpy", steps=3))
    before = recorded(tmp_path)
    with pytest.raises(CheckpointError, match=r"holds a run already.*--resume.*--overwrite"):
        start(text, tmp_path, "numpy")
    assert recorded(tmp_path) == before
    run = tabgpt.train(
        tiny_run.recipe(steps=2), text, backend="numpy", out=tmp_path, overwrite=True
    )
    assert [line.step for line in run] == [1, 2]
    assert checkpoints.load(tmp_path, moments=True).step == len(recorded(tmp_path)) == 2


def test_the_last_step_changes_only_by_name(text: Path, tmp_path: Path) -> None:
    cosine, constant = tmp_path / "cosine", tmp_path / "constant"
    list(start(text, cosine, "numpy", steps=6))
    list(start(text, constant, "numpy", steps=6, schedule="constant"))
    with pytest.raises(ConfigError, match=r"steps is 9, and this run has 6.*--extend-to 9"):
        tabgpt.resume(cosine, steps=9)
    assert tabgpt.resume(cosine, steps=6).train.steps == 6
    assert [line.step for line in tabgpt.resume(cosine, extend_to=9)] == [7, 8, 9]
    assert checkpoints.load(cosine).train == tiny_run.recipe(steps=9).train
    list(start(text, tmp_path / "longer", "numpy", steps=9, schedule="constant"))
    list(tabgpt.resume(constant, steps=9))
    a, b = (checkpoints.load(folder).tensors for folder in (constant, tmp_path / "longer"))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    with pytest.raises(ConfigError, match="steps is 5, and the run has done 9 already"):
        tabgpt.resume(constant, steps=5)


@pytest.fixture
def stopped(text: Path, tmp_path: Path) -> Iterator[Path]:
    run = start(text, tmp_path / "run", "numpy")
    list(islice(run, 2))
    run.save()
    yield tmp_path / "run"


def test_resuming_wants_the_same_corpus(text: Path, stopped: Path) -> None:
    moved = text.rename(text.with_name("moved.txt"))
    with pytest.raises(CorpusError, match=r"is not at .*tiny\.txt any more; pass it with --corpus"):
        tabgpt.resume(stopped)
    assert tabgpt.resume(stopped, corpus=moved).step == 2
    text.write_text(tiny_run.TEXT + "!", encoding="utf-8")
    for given in (None, text):
        with pytest.raises(CorpusError, match=r"its sha256 is .*, the run's "):
            tabgpt.resume(stopped, corpus=given)


def test_a_model_without_a_run_cannot_go_on(stopped: Path, tmp_path: Path) -> None:
    model = tabgpt.load(stopped, backend="numpy")
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="no optimizer state"):
        tabgpt.resume(tmp_path / "model")
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        tabgpt.resume(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("length", "parts"),
    [(5, ["5 to train on", "at least 9"]), (9, ["0 to validate", "2"]), (19, ["1 to validate"])],
)
def test_a_corpus_that_is_too_short_names_both_lengths(
    tmp_path: Path, backend: str, length: int, parts: list[str]
) -> None:
    (tmp_path / "short.txt").write_text(("abcde" * 4)[:length])
    with pytest.raises(CorpusError) as caught:
        start(tmp_path / "short.txt", tmp_path / "run", backend)
    for part in parts:
        assert part in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_bytes_train_too(tmp_path: Path, backend: str) -> None:
    file = tmp_path / "noise.bin"
    file.write_bytes(np.random.default_rng(1).bytes(2000))
    run = start(file, tmp_path / "run", backend, tokenizer="byte", steps=2)
    assert len(list(run)) == 2 and run.model.config.vocab_size == 256
    assert len(list(tabgpt.resume(tmp_path / "run", extend_to=3))) == 1
