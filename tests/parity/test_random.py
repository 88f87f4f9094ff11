"""Every random decision is the same on every build: weights, batches, masks, sampled tokens."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from remote import Remote, RemoteSession
from tabgpt import layout
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig
from tabgpt.optim import learning_rate

SEED = 3000000019  # above 2^31: a signed key would differ
V = 37
MODEL = ModelConfig(vocab_size=V, ctx=11, n_layer=2, n_head=2, d_model=14, dropout=0.25)
TRAIN = TrainConfig(batch_size=3, grad_accum=2, steps=9, warmup_steps=2, seed=SEED)
CORPUS = np.random.default_rng(4).integers(V, size=500, dtype=np.uint32)


def test_initial_weights_are_within_one_ulp(core: Remote) -> None:
    session = core.open(MODEL, TRAIN)
    session.init_weights()
    for number, tensor in enumerate(layout.tensors(MODEL)):
        expected = layout.init(tensor, number, SEED).astype(np.float32)
        off = abs(session.tensor(tensor.name) - expected) / np.spacing(abs(expected))
        assert off.max() <= 1, f"{tensor.name} is {off.max():.0f} ulp off"
        for role in ("m", "v"):
            assert not session.tensor(f"{role}:{tensor.name}").any()
    assert session.step_number == 0
    session.close()


def know_only_the_token(session: NumpySession | RemoteSession, logits: np.ndarray) -> None:
    """Weights under which every position's logits are exactly these float32 numbers.

    ln_f's weight is 0 and its bias the first unit vector, so the logits are the
    first column of wte: products with 0 and 1, exact in any order of summation.
    """
    for tensor in layout.tensors(session.config):
        session.set(tensor.name, np.zeros(tensor.shape))
    wte = np.zeros((V, MODEL.d_model))
    wte[:, 0] = logits
    session.set("transformer.wte.weight", wte)
    bias = np.zeros(MODEL.d_model)
    bias[0] = 1
    session.set("transformer.ln_f.bias", bias)


def test_batches_are_the_same(core: Remote) -> None:
    """The loss of a model that knows no context tells which targets it saw."""
    logits = np.random.default_rng(8).standard_normal(V).astype(np.float32)
    frozen = TrainConfig(batch_size=3, grad_accum=2, steps=9, lr=1e-30, weight_decay=0, seed=SEED)
    oracle = NumpySession(MODEL, frozen, CORPUS, "train")
    session = core.open(MODEL, frozen, CORPUS)
    for each in (oracle, session):
        know_only_the_token(each, logits)
    for step in (0, 1, 2, 70000):  # a step above 2^16
        for each in (oracle, session):
            each.step_number = step
        assert session.step().loss == pytest.approx(oracle.step().loss, rel=1e-6), f"step {step}"
    for arguments in (("val", 0), ("val", 1), ("val", 7), ("train", 0), ("train", 3)):
        expected = oracle.evaluate(*arguments)
        assert session.evaluate(*arguments) == pytest.approx(expected, rel=1e-6), arguments
    session.close()


def test_evaluation_windows(core: Remote) -> None:
    """Splits whose last window is short, absent, or all there is."""
    for n_val in (2, 9, 11, 12, 13, 36, 37):
        corpus = np.resize(CORPUS, 10 * n_val)
        oracle = NumpySession(MODEL, TRAIN, corpus, "infer")
        oracle.init_weights()
        session = core.open(MODEL, TRAIN, corpus, "infer")
        for name in session.names():
            session.set(name, oracle.tensor(name) * 20)
            oracle.set(name, session.tensor(name))
        for batches in (0, 2):
            expected = oracle.evaluate("val", batches)
            got = session.evaluate("val", batches)
            assert got == pytest.approx(expected, rel=2e-6), (n_val, batches)
        session.close()


SAMPLINGS = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 2.0, "top_k": 9, "top_p": 0.5},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1e-3},
    {"temperature": 50.0, "top_k": 1000},
    {"temperature": 1.0, "top_p": 1e-6},
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_same_logits_give_the_same_tokens(core: Remote, sampling: dict) -> None:
    logits = (3 * np.random.default_rng(9).standard_normal(V)).astype(np.float32)
    logits[[4, 20, 31]] = logits.max()  # equals: the lowest id stands first
    oracle = NumpySession(MODEL, TRAIN, mode="infer")
    session = core.open(MODEL, TRAIN, mode="infer")
    for each in (oracle, session):
        know_only_the_token(each, logits)
    for seed in (0, 1, SEED):
        for prompt in ([0], [5, 6, 7], list(range(30))):
            expected = list(islice(oracle.generate(prompt, **sampling, seed=seed), 60))
            assert session.sample(prompt, 60, **sampling, seed=seed) == expected
    session.close()


@pytest.mark.parametrize("n_prompt", [1, 10, 11, 25])
def test_writing_on_through_the_cache(core: Remote, n_prompt: int) -> None:
    """A real model past its context: cache, crop and new prefill, against the oracle's windows."""
    rng = np.random.default_rng(10)
    oracle = NumpySession(MODEL, TRAIN, mode="infer")
    session = core.open(MODEL, TRAIN, mode="infer")
    for tensor in layout.tensors(MODEL):
        value = tensor.fill + 0.6 * rng.standard_normal(tensor.shape).astype(np.float32)
        oracle.set(tensor.name, value)
        session.set(tensor.name, value)
    prompt = CORPUS[:n_prompt].tolist()
    for sampling in ({"temperature": 0.0}, {"temperature": 1.5, "top_k": 20, "seed": 5}):
        expected = list(islice(oracle.generate(prompt, **sampling), 40))
        assert session.sample(prompt, 40, **sampling) == expected
        assert len(set(expected)) >= 3  # not one token for ever
    session.close()


def test_learning_rates_are_the_same(core: Remote) -> None:
    steps = [*range(12), 10**6]
    for schedule in ("cosine", "constant"):
        for warmup in (0, 1, 4, 9, 30):
            train = TrainConfig(steps=9, schedule=schedule, warmup_steps=warmup, min_lr_ratio=0.3)
            fields = {**MODEL.to_dict(), **train.to_dict()}
            got = core("learning_rates", config=fields, steps=steps)
            assert got == pytest.approx([learning_rate(train, s) for s in steps], rel=1e-14)
