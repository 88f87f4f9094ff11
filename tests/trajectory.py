"""The 50-step run that every backend is held to, loss by loss.

Its config is chosen so that nothing of a step is idle: clipping fires on some
steps and not on others, warm-up and cosine both happen, two micro-batches are
accumulated, dropout is 0.1. Every backend starts from the same float32 weights,
since Box-Muller's log and cos may differ in the last bit between languages.
`ABLATIONS` leave one thing out each; tests/parity shows that the bound sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from remote import RemoteSession
from tabgpt import optim
from tabgpt.backends import Session, StepMetrics
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig

STEPS = 50
BOUND = 3e-6
"""Largest relative loss difference; float32 alone drifts by a tenth of this."""
GPU_BOUND = 2e-5
"""The same on a GPU."""

MODEL = ModelConfig(
    vocab_size=29,
    ctx=24,
    n_layer=2,
    n_head=3,
    d_model=42,  # not a multiple of 4, nor is the head of 14
    d_mlp=0,
    dropout=0.1,
    activation="gelu_tanh",
)
TRAIN = TrainConfig(
    batch_size=4,
    grad_accum=2,
    steps=STEPS,
    lr=4e-3,
    schedule="cosine",
    min_lr_ratio=0.1,
    warmup_steps=10,
    beta1=0.9,
    beta2=0.95,
    eps=1e-8,
    weight_decay=0.1,
    grad_clip=1.0,
    seed=1337,
)


def tokens() -> np.ndarray:
    """A corpus [3000] with something to learn: each token mostly follows from the last."""
    rng = np.random.default_rng(5)
    ids = [0]
    for jump in rng.random(2999) < 0.2:
        ids.append(int(rng.integers(29)) if jump else (ids[-1] * 3 + 7) % 29)
    return np.array(ids, dtype=np.uint32)


def weights() -> dict[str, np.ndarray]:
    """Starting weights in float32; biases and LayerNorms moved off 0 and 1 too."""
    session = NumpySession(MODEL, TRAIN, mode="infer")
    session.init_weights()
    rng = np.random.default_rng(6)
    return {
        name: (
            session.tensor(name) + 0.02 * rng.standard_normal(session.tensor(name).shape)
        ).astype(np.float32)
        for name in session.names()
    }


def start(session: Session | RemoteSession) -> None:
    """The common weights, into a session of MODEL, TRAIN and tokens()."""
    session.init_weights()
    for name, value in weights().items():
        session.set(name, value)


@dataclass(frozen=True)
class Trajectory:
    steps: list[StepMetrics]
    val_loss: float

    @property
    def grad_norms(self) -> np.ndarray:
        return np.array([step.grad_norm for step in self.steps])

    @property
    def losses(self) -> np.ndarray:
        return np.array([step.loss for step in self.steps])

    def distance(self, other: Trajectory) -> float:
        """Largest relative loss difference over the steps and the final validation loss."""
        mine = np.append(self.losses, self.val_loss)
        theirs = np.append(other.losses, other.val_loss)
        return float(np.max(abs(mine - theirs) / abs(theirs)))


def run(session: Session | RemoteSession) -> Trajectory:
    start(session)
    return Trajectory([session.step() for _ in range(STEPS)], session.evaluate("val"))


def oracle(model: ModelConfig = MODEL, train: TrainConfig = TRAIN) -> Trajectory:
    return run(NumpySession(model, train, tokens(), "train"))


def _without_bias_correction() -> Trajectory:
    """beta^(step+1) is gone from step 10^6 on; the learning rate is asked for the real step."""
    adamw, learning_rate = optim.adamw, optim.learning_rate
    later = 10**6
    try:
        optim.learning_rate = lambda train, step: learning_rate(train, step % later)
        optim.adamw = lambda *a, step, **k: adamw(*a, step=step + later, **k)
        return oracle()
    finally:
        optim.adamw, optim.learning_rate = adamw, learning_rate


ABLATIONS: dict[str, Callable[[], Trajectory]] = {
    "clip": lambda: oracle(train=replace(TRAIN, grad_clip=0.0)),
    "warm-up": lambda: oracle(train=replace(TRAIN, warmup_steps=0)),
    "cosine": lambda: oracle(train=replace(TRAIN, schedule="constant")),
    "accumulation": lambda: oracle(train=replace(TRAIN, grad_accum=1)),
    "dropout": lambda: oracle(model=replace(MODEL, dropout=0.0)),
    "weight decay": lambda: oracle(train=replace(TRAIN, weight_decay=0.0)),
    "eps 1e-8 (1e-6 instead)": lambda: oracle(train=replace(TRAIN, eps=1e-6)),
    "bias correction": _without_bias_correction,
}
