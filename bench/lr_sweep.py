"""Chooses the presets' learning rates: python bench/lr_sweep.py CORPUS

tiny, small and medium run to their end at each of four rates; large, xl and huge
run a short while at medium's rate and at half of it. The record is what
presets.json quotes: tests/bench/test_records.py asserts that the two agree.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import record
import runs

RATES = (3e-4, 6e-4, 1e-3, 2e-3)
WHOLE_RUNS = ("tiny", "small", "medium")
# (preset, optimizer steps of the short run)
SHORT_RUNS = (("large", 150), ("xl", 150), ("huge", 60))


def measure(corpus: Path, preset: str, lr: float, **options: Any) -> dict[str, Any]:
    """Validation loss (whole split) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        # Only the last step's evaluation counts, and nothing needs saving.
        quiet = {"eval_interval": 10**9, "sample_interval": 0, "autosave_seconds": 0}
        metrics = runs.train(out, corpus, preset, lr=lr, **quiet, **options)
    loss = runs.last_val_loss(metrics)
    print(f"{preset:8s} lr {lr:g}  steps {len(metrics)}  val_loss {loss:.4f}", flush=True)
    return {"preset": preset, "lr": lr, "steps": len(metrics), "val_loss": loss}


def best(results: list[dict[str, Any]], preset: str) -> float:
    """The rate with the lowest validation loss."""
    rows = [row for row in results if row["preset"] == preset]
    return float(min(rows, key=lambda row: row["val_loss"])["lr"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    corpus: Path = parser.parse_args().corpus
    results = [measure(corpus, preset, lr) for preset in WHOLE_RUNS for lr in RATES]
    medium = best(results, "medium")
    for preset, steps in SHORT_RUNS:
        # The warm-up is shortened with the run so that both rates are reached.
        for lr in (medium, medium / 2):
            results.append(measure(corpus, preset, lr, steps=steps, warmup_steps=steps // 10))
    presets = dict.fromkeys(row["preset"] for row in results)
    record.write(
        "lr-sweep",
        f"python bench/lr_sweep.py {corpus.name}",
        results,
        ok=True,
        why="lowest whole-split validation loss: "
        + ", ".join(f"{preset} {best(results, preset):g}" for preset in presets),
        corpus=runs.corpus_identity(corpus),
    )


if __name__ == "__main__":
    main()
