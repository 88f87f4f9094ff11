"""Does this GPU compute what the native core computes? Forward, backward, update, by name.

One step of a small model on both; browser/src/gpu/check.ts asks a visitor's GPU the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends import Session, open_session
from ..config import ModelConfig, TrainConfig

RELATIVE = 2e-5
"""Of a tensor's 2-norm: the bound between GPU and oracle."""
FLOOR = 1e-7
"""Of its kind's 2-norm, for what is zero in exact arithmetic."""

BATCH, CTX, VOCAB = 3, 17, 41
_SHAPE: dict[str, Any] = {"vocab_size": VOCAB, "ctx": CTX, "n_layer": 1, "n_head": 3, "d_model": 42}
"""No size is a multiple of 4, nor of a tile."""

_RECIPE: dict[str, Any] = {
    "batch_size": BATCH,
    "steps": 10,
    "lr": 1e-2,
    "warmup_steps": 2,
    "weight_decay": 0.1,
    "grad_clip": 0.5,
}
_SETTINGS = (
    (
        ModelConfig(**_SHAPE, dropout=0.1, activation="gelu_tanh"),
        TrainConfig(**_RECIPE, grad_accum=2),
    ),
    (
        ModelConfig(**_SHAPE, dropout=0.0, activation="gelu_erf"),
        TrainConfig(**_RECIPE, grad_accum=1),
    ),
)

Tensors = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Result:
    """The largest error as a share of its bound, and the tensor that has it."""

    worst: float
    name: str

    @property
    def ok(self) -> bool:
        return self.worst <= 1


def check_gpu(variants: str = "") -> Result:
    """Compares two settings, which between them have every kernel; `variants` as open_session's."""
    results = [_compare(model, train, variants) for model, train in _SETTINGS]
    return max(results, key=lambda result: result.worst)


def _compare(model: ModelConfig, train: TrainConfig, variants: str) -> Result:
    random = np.random.default_rng(0)
    corpus = random.integers(0, VOCAB, 400)
    gpu = open_session("wgpu", model, train, corpus, "probe", variants=variants)
    cpu = open_session("native", model, train, corpus, "probe", threads=1)
    try:
        _start(random, cpu, gpu)
        x, y = (corpus[first : first + BATCH * CTX].reshape(BATCH, CTX) for first in (0, 1))

        def passes(session: Session) -> Tensors:
            loss = session.loss_and_grads(x, y, train=True, step=7, micro=1)
            return {"loss": np.array([loss]), **_tensors(session)}

        def update(session: Session) -> Tensors:
            step = session.step()
            found = {"loss": np.array([step.loss]), "norm": np.array([step.grad_norm])}
            return found | _tensors(session, lambda name: _kind(name) in ("", "m", "v"))

        results = [
            _largest(work(gpu), work(cpu), what)
            for work, what in ((passes, ""), (update, " after a step"))
        ]
        return max(results, key=lambda result: result.worst)
    finally:
        gpu.close()
        cpu.close()


def _start(random: np.random.Generator, *sessions: Session) -> None:
    """Weights off their start, biases too; moments as in the middle of a run."""
    for session in sessions:
        session.init_weights()
    first = sessions[0]
    for name in first.names():
        value = np.array(first.tensor(name))
        if _kind(name) not in ("", "m", "v") or not name.removeprefix("m:").removeprefix(
            "v:"
        ).startswith("transformer."):
            continue
        noise = 0.02 * random.standard_normal(value.shape)
        value = value + (noise**2 if _kind(name) == "v" else noise)
        for session in sessions:
            session.set(name, value.astype(np.float32))


def _kind(name: str) -> str:
    """ "" a parameter, "m", "v", "grad" of a parameter, else an activation or its gradient."""
    role, _, rest = name.rpartition(":")
    return role if rest.startswith("transformer.") else f"{role}activation"


def _tensors(session: Session, wanted: Callable[[str], bool] = lambda _: True) -> Tensors:
    names = [name for name in session.names() if wanted(name)]
    return {name: np.asarray(session.tensor(name), np.float64) for name in names}


def _largest(got: Tensors, expected: Tensors, what: str) -> Result:
    kinds: dict[str, float] = {}
    for name, value in expected.items():
        kinds[_kind(name)] = math.hypot(kinds.get(_kind(name), 0.0), float(np.linalg.norm(value)))
    worst, where = 0.0, ""
    for name, value in expected.items():
        bound = RELATIVE * float(np.linalg.norm(value)) + FLOOR * kinds[_kind(name)]
        share = float(np.linalg.norm(got[name] - value)) / max(bound, 1e-30)
        if not share <= worst:  # NaN is the worst of all
            worst, where = (share if math.isfinite(share) else math.inf), name + what
    return Result(worst, where)
