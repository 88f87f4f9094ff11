"""Weights, batches, logits at their extremes: right like the oracle, or not finite and said so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import one_step
import pytest
from one_step import CPU, SETTINGS, Setting
from remote import Remote
from resuming import STATE
from tabgpt import layout
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig

MODEL = ModelConfig(vocab_size=7, ctx=6, n_layer=2, n_head=2, d_model=8, dropout=0.1)
TRAIN = TrainConfig(batch_size=2, grad_accum=2, steps=9, lr=1e-2, warmup_steps=0)
CORPUS = np.random.default_rng(4).integers(7, size=100, dtype=np.uint32)


def nan_in_each_weight(session: Any) -> None:
    """A step and an evaluation notice each; the step of sound weights after it is one like any."""
    session.init_weights()
    for name in (tensor.name for tensor in layout.tensors(MODEL)):
        assert session.step().finite, name
        before = {n: np.array(session.tensor(n)) for n in session.names() if n.startswith(STATE)}
        poisoned = before[name].copy()
        poisoned.flat[-1] = np.nan
        session.set(name, poisoned)
        metrics = session.step()
        assert not metrics.finite and not math.isfinite(metrics.loss), name
        assert not math.isfinite(session.evaluate("val")), name
        for tensor, old in (before | {name: poisoned}).items():
            assert np.array(session.tensor(tensor)).tobytes() == old.tobytes(), f"{name}: {tensor}"
        session.set(name, before[name])
    session.close()


def test_nan_in_any_weight_is_noticed_and_changes_nothing(core: Remote) -> None:
    nan_in_each_weight(core.open(MODEL, TRAIN, CORPUS))


def test_so_it_is_in_the_oracle() -> None:
    nan_in_each_weight(NumpySession(MODEL, TRAIN, CORPUS, "train"))


def repeated(wanted: Setting) -> Setting:
    """The same, on a corpus and a batch of one token only."""

    class Repeated(Setting):
        def corpus(self) -> np.ndarray:
            return np.full_like(super().corpus(), 2)

        def batch(self) -> tuple[np.ndarray, np.ndarray]:
            shape = (self.B, self.T)
            return np.full(shape, 2), np.full(shape, 2)

    return Repeated(**vars(wanted))


@pytest.mark.parametrize("name", ["usual", "width 42 in 3 heads, dropout"])
def test_a_batch_of_one_repeated_token(core: Remote, name: str, measured) -> None:
    """By tensor name, within the usual bounds: every row of the embedding's sum is the same one."""
    wanted = repeated(SETTINGS[name])
    oracle = NumpySession(wanted.model, wanted.train, wanted.corpus(), "probe")
    expected = one_step.drive(oracle, wanted)
    session = core.open(wanted.model, wanted.train, wanted.corpus(), "probe")
    got = one_step.drive(session, wanted)
    session.close()

    def note(share: float, tensor: str) -> None:
        measured("step", core.name, share, f"{tensor} ({name}, one token)")

    wrong = one_step.differences(got, expected, CPU, note)
    assert not wrong, "\n".join(wrong)


def scaled(session: object, size: float) -> None:
    """Starting weights whose logits reach +-size: they are linear in ln_f's gain and bias."""
    session.init_weights()
    x = CORPUS[:12].reshape(2, 6).astype(np.int64)
    factor = size / float(abs(np.array(session.logits(x))).max())
    for name in ("transformer.ln_f.weight", "transformer.ln_f.bias"):
        session.set(name, np.array(session.tensor(name)) * factor)


def test_logits_of_ten_thousand(core: Remote) -> None:
    """Loss, gradients and three steps like the oracle's, as far as float32 can hold such logits.

    exp() makes an absolute error of a logit a relative one of its probability: the bound of a step
    is multiplied by the largest logit for what goes through the softmax.
    """
    size = 1e4
    x, y = CORPUS[:12].reshape(2, 6).astype(np.int64), CORPUS[1:13].reshape(2, 6).astype(np.int64)
    oracle = NumpySession(MODEL, replace(TRAIN, lr=1e-4), CORPUS, "train")
    session = core.open(MODEL, replace(TRAIN, lr=1e-4), CORPUS)
    scaled(oracle, size)
    for tensor in layout.tensors(MODEL):
        oracle.set(tensor.name, oracle.tensor(tensor.name).astype(np.float32))
        session.set(tensor.name, oracle.tensor(tensor.name))
    wanted, logits = oracle.loss_and_grads(x, y), oracle.logits(x)
    assert abs(logits).max() == pytest.approx(size, rel=1e-3) and wanted > 1e3
    assert session.loss_and_grads(x, y) == pytest.approx(wanted, rel=CPU)
    norm = np.sqrt(sum(np.square(oracle.tensor(f"grad:{t.name}")).sum() for t in oracle._layout))
    for tensor in layout.tensors(MODEL):
        right = oracle.tensor(f"grad:{tensor.name}")
        error = np.linalg.norm(np.array(session.tensor(f"grad:{tensor.name}")) - right)
        assert error <= CPU * size * np.linalg.norm(right) + 1e-7 * norm, tensor.name
    for _ in range(3):
        got, expected = session.step(), oracle.step()
        assert got.finite and expected.finite
        assert got.loss == pytest.approx(expected.loss, rel=CPU * 100)
    assert session.sample([1], 4, temperature=0) == [
        int(i) for _, i in zip(range(4), oracle.generate([1], 0.0), strict=False)
    ]
    session.close()


def test_logits_beyond_float32_stop_the_step(core: Remote) -> None:
    session = core.open(MODEL, TRAIN, CORPUS)
    scaled(session, 1e20)
    weights = {n: np.array(session.tensor(n)) for n in session.names() if n.startswith(STATE)}
    name = "transformer.wte.weight"
    session.set(name, weights[name] * np.float32(1e20))
    weights[name] = np.array(session.tensor(name))
    metrics = session.step()
    assert not metrics.finite
    for tensor, old in weights.items():
        assert np.array(session.tensor(tensor)).tobytes() == old.tobytes(), tensor
    session.close()
