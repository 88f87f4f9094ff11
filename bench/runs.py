"""Runs `tabgpt train` as a user would and reads back its metrics."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def corpus_identity(path: Path) -> dict[str, str]:
    """Name and sha256 of a corpus file, as records hold them."""
    return {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def train(out: Path, corpus: Path, preset: str, **options: Any) -> list[dict[str, Any]]:
    """One whole run through the CLI; returns the lines of its metrics.jsonl.

    options are the CLI's own (`lr=1e-3` becomes `--lr 0.001`). Raises
    CalledProcessError, with the CLI's message on stderr, when the run fails.
    """
    command = [sys.executable, "-m", "tabgpt", "train", "--corpus", str(corpus)]
    command += ["--preset", preset, "--out", str(out)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def last_val_loss(metrics: list[dict[str, Any]]) -> float:
    """The whole-split validation loss that the last step always carries, in nats a token."""
    return float(metrics[-1]["val_loss"])
