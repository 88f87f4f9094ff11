"""One training step by tensor name, for every backend to be compared with the oracle.

Bound per tensor: |got - oracle| <= r |oracle| + 1e-7 of its kind's global norm, 2-norms,
with r for a CPU or a GPU. The floor is for what is zero in exact arithmetic (the gradient of k's
bias: softmax ignores a shift) and is rounding noise in float32. The step starts
from moments as they are mid-run: from zero, AdamW's first update is g/|g|, which
would show that noise at full size in the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from tabgpt import layout
from tabgpt.backends import StepMetrics
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig

CPU, GPU = 2e-6, 2e-5
FLOOR = 1e-7
STEP, MICRO = 7, 1  # of the explicit batch's dropout; the optimizer step is number 7 too


@dataclass(frozen=True)
class Setting:
    model: ModelConfig
    train: TrainConfig
    B: int
    T: int
    moments: float = 1.0
    """Scale of AdamW's moments before the step."""
    head: float = 1.0
    """Scale of ln_f: of the logits, and so of every gradient."""

    def corpus(self) -> np.ndarray:
        n = 12 * (self.model.ctx + 2)
        return np.random.default_rng(1).integers(self.model.vocab_size, size=n, dtype=np.uint32)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        shape = (2, self.B, self.T)
        ids = np.random.default_rng(2).integers(self.model.vocab_size, size=shape)
        return ids[0], ids[1]

    def state(self) -> dict[str, np.ndarray]:
        """Weights, LayerNorms and biases all far from their start, and moments, in float32."""
        rng, state = np.random.default_rng(3), {}
        for tensor in layout.tensors(self.model):
            std = 2 / np.sqrt(self.model.d_model) if tensor.decayed else 0.3
            state[tensor.name] = tensor.fill + 0.3 * std * rng.standard_normal(tensor.shape)
            state[f"m:{tensor.name}"] = self.moments * 0.01 * rng.standard_normal(tensor.shape)
            state[f"v:{tensor.name}"] = self.moments * 0.01 * (0.1 + rng.random(tensor.shape))
            if tensor.name.startswith("transformer.ln_f"):
                state[tensor.name] *= self.head
        return {name: value.astype(np.float32) for name, value in state.items()}


def setting(
    B: int, T: int, batch_size: int, grad_accum: int = 1, clip: float = 0.5, **model: object
) -> Setting:
    train = TrainConfig(
        batch_size=batch_size,
        grad_accum=grad_accum,
        steps=20,
        lr=1e-2,
        warmup_steps=3,
        grad_clip=clip,
    )
    return Setting(ModelConfig(**model), train, B, T)  # type: ignore[arg-type]


TANH, ERF = {"activation": "gelu_tanh"}, {"activation": "gelu_erf"}
SETTINGS = {
    "usual": setting(4, 16, 4, vocab_size=65, ctx=16, n_layer=2, n_head=4, d_model=32, **TANH),
    "one token of one sequence": setting(
        1, 1, 1, vocab_size=3, ctx=1, n_layer=1, n_head=1, d_model=4, **ERF
    ),
    "one of everything": setting(
        1, 1, 1, vocab_size=2, ctx=1, n_layer=1, n_head=1, d_model=1, d_mlp=1, **TANH
    ),
    "V 3, a window shorter than ctx": setting(
        3, 5, 3, vocab_size=3, ctx=9, n_layer=2, n_head=1, d_model=10, **TANH
    ),
    "width 42 in 3 heads, dropout": setting(
        3, 13, 3, 2, vocab_size=29, ctx=13, n_layer=2, n_head=3, d_model=42, dropout=0.1, **TANH
    ),
    "prime sizes, erf, dropout, 3 micro-batches": setting(
        5,
        17,
        5,
        3,
        vocab_size=101,
        ctx=19,
        n_layer=3,
        n_head=1,
        d_model=31,
        d_mlp=47,
        dropout=0.5,
        **ERF,
    ),
    "head of 128, not clipped": setting(
        2, 33, 2, clip=100.0, vocab_size=7, ctx=33, n_layer=1, n_head=1, d_model=128, **ERF
    ),
    "nanogpt-cpu's width": setting(
        12, 64, 12, vocab_size=65, ctx=64, n_layer=1, n_head=4, d_model=128, dropout=0.2, **ERF
    ),
}


# 1 - 0.999 in float32 is off by 1e-5 of itself, which shows where v starts from 0. The large eps
# keeps gradients that are zero but for rounding from being normalised.
SETTINGS["moments from zero, beta2 0.999"] = replace(
    SETTINGS["usual"],
    train=replace(SETTINGS["usual"].train, beta1=0.97, beta2=0.999, eps=1e-4),
    moments=0.0,
)
SETTINGS["gradients of norm 0.1"] = replace(  # where clipping's 1e-6 beside the norm shows
    SETTINGS["usual"],
    train=replace(SETTINGS["usual"].train, grad_clip=1e-3, eps=1e-6),
    moments=0.0,
    head=0.002,
)


@dataclass
class Passed:
    """What a session shows: tensors after loss and gradients, and after the step."""

    loss: float
    batch: dict[str, np.ndarray]
    metrics: StepMetrics
    after: dict[str, np.ndarray]


def drive(session: object, wanted: Setting) -> Passed:
    """The same calls on the oracle and over the wire."""
    for name, value in wanted.state().items():
        session.set(name, value)  # type: ignore[attr-defined]
    loss = session.loss_and_grads(*wanted.batch(), train=True, step=STEP, micro=MICRO)
    moments = ("m:", "v:", "transformer.")
    read = [name for name in session.names() if not name.startswith(moments)]
    batch = {name: np.array(session.tensor(name)) for name in read}
    session.step_number = STEP
    metrics = session.step()
    after = [name for name in session.names() if name.startswith((*moments, "grad:transformer."))]
    return Passed(loss, batch, metrics, {n: np.array(session.tensor(n)) for n in after})


@cache
def oracle(name: str) -> Passed:
    wanted = SETTINGS[name]
    return drive(NumpySession(wanted.model, wanted.train, wanted.corpus(), "probe"), wanted)


def kind(name: str) -> str:
    """The group whose global norm is the floor's."""
    prefix, colon, rest = name.rpartition(":")
    group = "parameters" if rest.startswith("transformer.") else "activations"
    return f"{prefix}{colon}{group}"


def differences(
    got: Passed, expected: Passed, relative: float, note: Callable[[float, str], None]
) -> list[str]:
    """What is out of bounds, with figures; `note` hears of each error as a share of its bound."""
    assert sorted(got.batch) == sorted(expected.batch)
    wrong = _differences(got.batch, expected.batch, relative, note)
    wrong += _differences(got.after, expected.after, relative, note)
    numbers = {
        "loss": (got.loss, expected.loss),
        "the step's loss": (got.metrics.loss, expected.metrics.loss),
        "grad_norm": (got.metrics.grad_norm, expected.metrics.grad_norm),
    }
    for name, (value, right) in numbers.items():
        if value != pytest.approx(right, rel=relative):
            wrong.append(f"{name}: {value}, not {right}")
    assert got.metrics.finite
    assert got.metrics.step == STEP
    assert got.metrics.lr == pytest.approx(expected.metrics.lr, rel=1e-12)
    return wrong


def _differences(
    got: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    relative: float,
    note: Callable[[float, str], None],
) -> list[str]:
    norms: dict[str, float] = {}
    for name, value in expected.items():
        norms[kind(name)] = float(np.hypot(norms.get(kind(name), 0.0), np.linalg.norm(value)))
    wrong = []
    for name, value in expected.items():
        assert got[name].shape == value.shape, f"{name}: {got[name].shape}, not {value.shape}"
        error = np.linalg.norm(got[name].astype(np.float64) - value)
        bound = relative * np.linalg.norm(value) + FLOOR * norms[kind(name)]
        note(float(error / bound) if bound else float(error > 0), name)
        if not error <= bound:
            wrong.append(f"{name}: off by {error:.2e}, allowed {bound:.2e}")
    return wrong
