"""What a checkpoint keeps, in which order it is written, and who can read it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny_run
from safetensors import safe_open
from tabgpt import api, safetensors_file
from tabgpt import checkpoint as checkpoints
from tabgpt.checkpoint import Checkpoint
from tabgpt.config import RunConfig, TrainConfig
from tabgpt.errors import CheckpointError


def full(step: int = 7) -> Checkpoint:
    made = tiny_run.checkpoint()
    made.train, made.run, made.step = TrainConfig(batch_size=2), RunConfig(), step
    made.corpus = {"path": "/a/b 🦊.txt", "sha256": "0" * 64, "name": "b 🦊.txt"}
    made.backend = "numpy"
    made.moments = {f"{r}:{n}": a * 0.5 for r in "mv" for n, a in made.tensors.items()}
    return made


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert list(a) == list(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip_is_exact(tmp_path: Path, dtype: type) -> None:
    made = full()
    made.tensors = {name: array.astype(dtype) for name, array in made.tensors.items()}
    checkpoints.save(tmp_path, made)
    for path in (tmp_path, tmp_path / "model.safetensors"):
        read = checkpoints.load(path, moments=True)
        same(read.tensors, made.tensors)
        assert made.moments is not None and read.moments is not None
        same(read.moments, made.moments)
        for key in ("config", "train", "run", "step", "corpus", "backend", "tokens_seen"):
            assert getattr(read, key) == getattr(made, key)
        assert read.tokenizer.to_json() == made.tokenizer.to_json()


def test_the_file_is_what_the_format_says(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, full())
    with safe_open(tmp_path / "model.safetensors", framework="np") as file:
        metadata = file.metadata()
        names = set(file.keys())
    assert metadata["format"] == "pt"
    assert metadata["tabgpt_schema"] == "1"
    assert metadata["step"] == "7"
    assert metadata["tokens_seen"] == str(7 * 1 * 2 * 8)
    assert metadata["seed"] == str(TrainConfig().seed)
    assert metadata["optimizer"] == "optimizer-000007.safetensors"
    assert json.loads(metadata["config"]) == tiny_run.model_config().to_dict()
    assert json.loads(metadata["tokenizer"]) == {"kind": "char", "vocab": "abcdefghijk"}
    assert "lm_head.weight" not in names
    raw = (tmp_path / "model.safetensors").read_bytes()
    assert int.from_bytes(raw[:8], "little") % 8 == 0
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "gpt2" and config["n_inner"] == 32


def test_equal_checkpoints_are_equal_files(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "a", full())
    checkpoints.save(tmp_path / "b", full())
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_the_model_file_commits_and_old_moments_go_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(tmp_path, full(step=7))
    written: list[str] = []
    commit = safetensors_file.commit

    def recorded(partial: Path, path: Path) -> None:
        assert (tmp_path / "optimizer-000007.safetensors").exists()
        written.append(path.name)
        commit(partial, path)

    monkeypatch.setattr(safetensors_file, "commit", recorded)
    monkeypatch.setattr(checkpoints, "commit", recorded)
    checkpoints.save(tmp_path, full(step=8))
    assert written == ["optimizer-000008.safetensors", "config.json", "model.safetensors"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(written)


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_a_save_that_dies_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    """Dies before the rename of the moments, of config.json, of the model."""
    checkpoints.save(tmp_path, full(step=7))
    commit = safetensors_file.commit
    left = [allowed]

    def dying(partial: Path, path: Path) -> None:
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        commit(partial, path)

    monkeypatch.setattr(safetensors_file, "commit", dying)
    monkeypatch.setattr(checkpoints, "commit", dying)
    changed = full(step=8)
    changed.tensors = {name: array + 1 for name, array in changed.tensors.items()}
    with pytest.raises(CheckpointError, match="No space left"):
        checkpoints.save(tmp_path, changed)
    read = checkpoints.load(tmp_path, moments=True)
    assert read.step == 7
    same(read.tensors, full().tensors)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot make the folder"):
        checkpoints.save(tmp_path / "file" / "run", full())


def test_every_backend_reads_every_others(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "float64", full())
    tokens = np.array([[0, 3, 10, 5]])
    for first, second in (("numpy", "native"), ("native", "numpy")):
        wrote = api.load(tmp_path / "float64", backend=first)
        wrote.save(tmp_path / first)
        read = api.load(tmp_path / first, backend=second)
        np.testing.assert_allclose(read.logits(tokens), wrote.logits(tokens), atol=1e-4)


def test_saving_a_model_does_not_end_a_run(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, full())
    with pytest.raises(CheckpointError, match="a run that can be resumed"):
        api.load(tmp_path, backend="numpy").save(tmp_path)
    assert checkpoints.load(tmp_path, moments=True).moments
