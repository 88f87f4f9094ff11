"""What a run must be whose WASM memory grew under its threads (tests/wasm/growth.ts)."""

from __future__ import annotations

from typing import Any

import numpy as np
from tabgpt.backends.native import NativeSession
from tabgpt.config import preset

BUILDS = ("simd-threads", "relaxed-threads", "simd-threads-64", "relaxed-threads-64")
MIDDLE = "large"
MIDDLE_BUILDS = ("relaxed-threads", "relaxed-threads-64")
MIDDLE_STEPS = 2
BOUND = 3e-6
"""Largest relative loss difference from the native core's, as a trajectory's from the oracle's."""


def judge(growth: dict[str, Any], steps_that_grow: int = 10) -> None:
    assert growth["startBytes"] < growth["openBytes"] < growth["endBytes"]
    assert growth["stepsThatGrew"] >= steps_that_grow
    assert growth["same"]  # bit for bit as in a memory that was large enough
    assert growth["worst"] <= growth["bound"]


def middle() -> dict[str, Any]:
    """A preset of millions of parameters on the native core, in check/trajectory.json's form."""
    recipe = preset(MIDDLE)
    model = recipe.model(65)
    tokens = np.random.default_rng(3).integers(65, size=3000).astype(np.uint32)
    session = NativeSession(model, recipe.train, tokens, mode="train")
    session.init_weights()
    losses = [session.step().loss for _ in range(MIDDLE_STEPS)]
    return {
        "config": {**model.to_dict(), **recipe.train.to_dict()},
        "tokens": tokens.tolist(),
        "losses": losses,
        "val_loss": session.evaluate("val"),
        "bound": BOUND,
    }
