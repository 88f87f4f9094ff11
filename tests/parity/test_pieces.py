"""Activations of more than 2 GiB, which no 32-bit malloc gives at once, lie in several pieces."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from remote import NATIVE, Remote, RemoteSession
from tabgpt.config import ModelConfig, TrainConfig

MODEL = ModelConfig(
    vocab_size=64,
    ctx=16,
    n_layer=24,
    n_head=1,
    d_model=8,
    d_mlp=32,
    dropout=0.0,
    activation="gelu_tanh",
)
PARTS, ROWS = 4, 2900
"""The same sequences at once and in parts; a part's activations lie in one piece."""
WHOLE, PART = (TrainConfig(batch_size=rows) for rows in (PARTS * ROWS, ROWS))
BOUND = 4e-6
"""Relative L2: each side is within 2e-6 of the oracle (test_step.py)."""


def activations(core: Remote, train: TrainConfig) -> int:
    """Bytes."""
    config = asdict(MODEL) | asdict(train)
    planned: dict[str, int] = core("memory", config=config, mode="train", threads=2, tokens=0)
    return planned["activations"]


def gradients(session: RemoteSession) -> dict[str, np.ndarray]:
    names = [name for name in session.names() if name.startswith("grad:")]
    return {name: session.tensor(name).astype(np.float64) for name in names}


@pytest.mark.parametrize("build", [NATIVE[0], "wasm-relaxed-threads"])
def test_a_batch_whose_activations_lie_in_pieces_is_the_mean_of_its_parts(build: str) -> None:
    core = Remote(build)
    ids = np.random.default_rng(3).integers(0, MODEL.vocab_size, (2, PARTS * ROWS, MODEL.ctx))
    assert activations(core, WHOLE) > 2**31
    session = core.open(MODEL, WHOLE)
    session.init_weights()
    loss, whole = session.loss_and_grads(*ids), gradients(session)
    session.close()

    assert activations(core, PART) < 2**30
    session = core.open(MODEL, PART)
    session.init_weights()
    losses, sums = [], {name: np.zeros_like(array) for name, array in whole.items()}
    for first in range(0, PARTS * ROWS, ROWS):
        losses.append(session.loss_and_grads(*ids[:, first : first + ROWS]))
        for name, array in gradients(session).items():
            sums[name] += array / PARTS
    core.stop()

    assert loss == pytest.approx(np.mean(losses), rel=1e-6)
    floor = 1e-7 * np.sqrt(sum(np.sum(array**2) for array in sums.values()))
    for name, array in sums.items():
        error = np.linalg.norm(whole[name] - array)
        assert error <= max(BOUND * np.linalg.norm(array), floor), name
