"""The run by which the page is compared with the oracle, in any browser and on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import tiny_run
from playground import TINY
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig
from tabgpt.tokenizer import CharTokenizer


def recipe(steps: int) -> dict[str, Any]:
    """What is typed on the page. Every part of a step acts: see trajectory.py."""
    return {
        **TINY,
        "d_model": 18,
        "n_head": 3,
        "grad_accum": 2,
        "dropout": 0.1,
        "steps": steps,
        "lr": 4e-3,
        "warmup_steps": 10,
        "schedule": "cosine",
        "sample_interval": 0,
        "eval_interval": steps,
    }


def oracle(steps: int) -> tuple[np.ndarray, float]:
    """The same run in float64: losses [steps] and the validation loss at its end.

    The starting weights differ from the page's by float32's rounding alone.
    """
    typed = recipe(steps)
    text = CharTokenizer.train(tiny_run.TEXT)
    model = {name: typed[name] for name in ("ctx", "n_layer", "n_head", "d_model", "dropout")}
    train = {
        name: typed[name]
        for name in ("batch_size", "grad_accum", "steps", "lr", "warmup_steps", "schedule")
    }
    session = NumpySession(
        ModelConfig(vocab_size=text.vocab_size, **model),
        TrainConfig(**train),
        np.array(text.encode(tiny_run.TEXT), np.uint32),
        "train",
    )
    session.init_weights()
    losses = np.array([session.step().loss for _ in range(steps)])
    return losses, session.evaluate("val")
