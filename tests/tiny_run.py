"""A model and a text so small that a run takes a second, for the tests of the host's side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tabgpt import layout
from tabgpt.checkpoint import Checkpoint
from tabgpt.config import ModelConfig, Recipe, preset
from tabgpt.corpus import Corpus, make_corpus
from tabgpt.tokenizer import CharTokenizer

TEXT = "The quick brown fox jumps over the lazy dog, says the 🦊.\n" * 60
SIZES: dict[str, Any] = {"ctx": 8, "n_layer": 2, "n_head": 2, "d_model": 8, "batch_size": 2}


def recipe(**overrides: Any) -> Recipe:
    """30 steps with dropout, accumulation, warm-up, cosine and evaluations."""
    training: dict[str, Any] = {"steps": 30, "warmup_steps": 5, "lr": 3e-3, "grad_accum": 2}
    run: dict[str, Any] = {"eval_interval": 10, "eval_batches": 3, "autosave_seconds": 0}
    return preset("tiny", **{**SIZES, **training, **run, "dropout": 0.1, **overrides})


def corpus(text: str = TEXT) -> Corpus:
    return make_corpus(text.encode(), "tiny.txt")


def model_config(**overrides: Any) -> ModelConfig:
    sizes = {key: value for key, value in SIZES.items() if key != "batch_size"}
    return ModelConfig(**{"vocab_size": 11, **sizes, **overrides})


def checkpoint(config: ModelConfig | None = None, dtype: type = np.float64) -> Checkpoint:
    """Random weights of every shape; the vocabulary is the first letters of the alphabet."""
    config = config or model_config()
    rng = np.random.default_rng(5)
    tensors = {t.name: rng.standard_normal(t.shape).astype(dtype) for t in layout.tensors(config)}
    vocab = "".join(chr(ord("a") + i) for i in range(config.vocab_size))
    return Checkpoint(config, tensors, CharTokenizer(vocab))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tabgpt", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """A plain terminal of one thread; the package is found where this process found it."""
    found = str(Path(layout.__file__).parents[1])
    plain = {"PYTHONPATH": found, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    return {**os.environ, **plain, **more}


def tabgpt(*arguments: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
