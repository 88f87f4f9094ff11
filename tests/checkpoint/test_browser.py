"""The page's reader and writer, run by Node: either side goes on with the other's run."""

from __future__ import annotations

import json
import subprocess
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import metrics

REWRITE = Path(__file__).with_name("rewrite.ts")


def rewrite(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Reads a folder and writes it again with the page's code."""
    command = ["node", "--experimental-strip-types", "--no-warnings", REWRITE, source, target]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A native run of 30 steps, stopped after 12."""
    text = tmp_path / "tiny.txt"
    text.write_text(tiny_run.TEXT, encoding="utf-8")
    run = tabgpt.train(tiny_run.recipe(), text, out=tmp_path / "run", threads=1)
    list(islice(run, 12))
    run.save()
    return tmp_path / "run"


def test_a_run_through_the_page_is_the_same_run(run_folder: Path, tmp_path: Path) -> None:
    done = rewrite(run_folder, tmp_path / "page")
    assert done.returncode == 0, done.stderr
    ours = checkpoints.load(run_folder, moments=True)
    theirs = checkpoints.load(tmp_path / "page", moments=True)
    assert ours.moments is not None and theirs.moments is not None
    for a, b in ((ours.tensors, theirs.tensors), (ours.moments, theirs.moments)):
        assert list(a) == list(b)
        for name in a:
            assert b[name].dtype == np.float32
            np.testing.assert_array_equal(a[name], b[name])
    for key in ("config", "train", "run", "step", "tokens_seen", "corpus"):
        assert getattr(ours, key) == getattr(theirs, key)
    assert ours.tokenizer.to_json() == theirs.tokenizer.to_json()
    assert json.loads((run_folder / "config.json").read_text()) == json.loads(
        (tmp_path / "page" / "config.json").read_text()
    )
    a, b = (metrics.read(f / "metrics.jsonl") for f in (run_folder, tmp_path / "page"))
    assert a == b
    rest = [list(tabgpt.resume(f, backend="native")) for f in (run_folder, tmp_path / "page")]
    assert [m.loss for m in rest[0]] == [m.loss for m in rest[1]]
    assert rest[0][-1].val_loss == rest[1][-1].val_loss


def test_the_page_reads_the_oracles_float64(run_folder: Path, tmp_path: Path) -> None:
    tabgpt.load(run_folder, backend="numpy").save(tmp_path / "float64")
    assert rewrite(tmp_path / "float64", tmp_path / "page").returncode == 0
    a, b = (checkpoints.load(tmp_path / name).tensors for name in ("float64", "page"))
    for name in a:
        assert a[name].dtype == np.float64
        np.testing.assert_array_equal(a[name].astype(np.float32), b[name])


@pytest.mark.parametrize("damage", ["truncated", "nan", "hole"])
def test_both_refuse_the_same_files(tmp_path: Path, damage: str) -> None:
    made = tiny_run.checkpoint(dtype=np.float32)
    checkpoints.save(tmp_path / "bad", made)
    file = tmp_path / "bad" / "model.safetensors"
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    if damage == "hole":
        last = max(header, key=lambda n: header[n].get("data_offsets", [0])[0])
        header[last]["data_offsets"] = [n + 8 for n in header[last]["data_offsets"]]
    text = json.dumps(header).encode()
    data = raw[8 + length :] + (b"\0" * 8 if damage == "hole" else b"")
    if damage == "nan":
        data = data[:-4] + np.float32(np.nan).tobytes()
    file.write_bytes(
        (len(text).to_bytes(8, "little") + text + data)[: -3 if damage == "truncated" else None]
    )
    with pytest.raises(tabgpt.TabgptError):
        checkpoints.load(tmp_path / "bad")
    done = rewrite(tmp_path / "bad", tmp_path / "page")
    assert done.returncode == 1, done.stdout
    assert done.stderr.strip() and "    at " not in done.stderr
