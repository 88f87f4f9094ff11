"""With numpy in Node's Pyodide: the oracle beside the core, and `tabgpt train`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyodide_node as node
import tiny_run
import trajectory
from tabgpt import checkpoint as checkpoints
from trajectory import BOUND

HERE = Path(__file__).resolve().parent
EVERYTHING = ["numpy", "rich", "typer", "annotated_doc", "shellingham", "markdown_it_py", "mdurl",
              "pygments", "tabgpt"]  # fmt: skip
TRAIN = ["train", "--corpus", "tiny.txt", "--preset", "tiny", "--ctx", "8", "--n-head", "2",
         "--d-model", "8", "--batch", "2", "--lr", "3e-3", "--dropout", "0.1"]  # fmt: skip


def losses(run: Path) -> list[float]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_the_oracle_and_the_core_agree_there() -> None:
    seen = json.loads(node.run(HERE / "both_there.py", ["numpy", "tabgpt"]))
    assert seen["distance"] <= BOUND
    here = trajectory.oracle()
    np.testing.assert_allclose(seen["losses"], here.losses, rtol=1e-10)
    np.testing.assert_allclose(seen["val_loss"], here.val_loss, rtol=1e-10)


def test_a_run_there_is_the_run_here_and_resumes(tmp_path: Path) -> None:
    """30 steps there in two parts, the second resumed, against 30 steps of the native core."""
    (tmp_path / "tiny.txt").write_text(tiny_run.TEXT, encoding="utf-8")
    steps = ["--schedule", "constant", "--steps"]
    script, folder = HERE / "train_there.py", f"/host{tmp_path}"
    first = node.run(script, EVERYTHING, folder, *TRAIN, *steps, "15", "--out", "there")
    assert "Finished: 15 steps" in first and "wasm-simd" in first
    node.run(script, EVERYTHING, folder, "train", "--resume", "there", "--extend-to", "30",
             "--corpus", "tiny.txt")  # fmt: skip
    done = tiny_run.tabgpt(*TRAIN, *steps, 30, "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    there, here = losses(tmp_path / "there"), losses(tmp_path / "here")
    assert len(there) == 30
    np.testing.assert_allclose(there, here, rtol=BOUND)
    assert checkpoints.load(tmp_path / "there").step == 30
    sampled = node.run(script, EVERYTHING, folder, "sample", "there", "--max-new-tokens", "9")
    assert len(sampled.strip()) > 0
