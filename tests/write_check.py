#!/usr/bin/env python3
"""Writes what the page /check compares itself with: the oracle's 50-step trajectory.

browser/public/check/trajectory.json holds the bounds, the config, the corpus's
token ids and the oracle's losses, gradient norms and final validation loss;
weights.safetensors beside it holds the float32 weights that every backend starts from.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import trajectory  # noqa: E402
from safetensors.numpy import save  # noqa: E402


def write(folder: Path) -> None:
    """A few seconds: the oracle runs the 50 steps."""
    folder.mkdir(parents=True, exist_ok=True)
    run = trajectory.oracle()
    content = {
        "bound": trajectory.BOUND,
        "gpu_bound": trajectory.GPU_BOUND,
        "config": {**asdict(trajectory.MODEL), **asdict(trajectory.TRAIN)},
        "weights": "weights.safetensors",
        "tokens": trajectory.tokens().tolist(),
        "losses": run.losses.tolist(),
        "grad_norms": run.grad_norms.tolist(),
        "val_loss": run.val_loss,
    }
    (folder / "weights.safetensors").write_bytes(save(trajectory.weights(), {"format": "pt"}))
    (folder / "trajectory.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "browser" / "public" / "check")
