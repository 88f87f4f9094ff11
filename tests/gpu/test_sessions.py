"""Training on a GPU, through every executor of the core's plans, against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import one_step
import pytest
import trajectory
from one_step import GPU, SETTINGS
from remote import Remote, RemoteSession
from resuming import assert_resumes_exactly, state, steps
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig
from trajectory import GPU_BOUND, MODEL, TRAIN


@pytest.mark.parametrize("name", SETTINGS)
def test_step_agrees_by_tensor_name(gpu: Remote, name: str, measured: Callable) -> None:
    wanted, expected = SETTINGS[name], one_step.oracle(name)
    session = gpu.open(wanted.model, wanted.train, wanted.corpus(), "probe")
    got = one_step.drive(session, wanted)
    session.close()

    def note(share: float, tensor: str) -> None:
        measured(gpu.name, share, f"step {tensor} ({name})")

    wrong = one_step.differences(got, expected, GPU, note)
    assert not wrong, "\n".join(wrong)


def test_losses_of_fifty_steps_stay_within_the_bound(gpu: Remote, measured: Callable) -> None:
    session = gpu.open(MODEL, TRAIN, trajectory.tokens())
    got, expected = trajectory.run(session), trajectory.oracle()
    session.close()
    distance = got.distance(expected)
    measured(gpu.name, distance / GPU_BOUND, f"trajectory, largest difference {distance:.1e}")
    assert distance <= GPU_BOUND
    lr = [step.lr for step in expected.steps]
    assert [step.lr for step in got.steps] == pytest.approx(lr, rel=1e-12)
    assert got.grad_norms == pytest.approx(expected.grad_norms, rel=10 * GPU_BOUND)


def test_a_plan_that_shares_memory_computes_the_same_bits(gpu: Remote) -> None:
    """A probe keeps every activation; training's plan lays them over each other."""
    seen = []
    for mode in ("train", "probe"):
        session = gpu.open(MODEL, TRAIN, trajectory.tokens(), mode)
        trajectory.start(session)
        seen.append((steps(session, 3), session.evaluate("val", 2), state(session)))
        session.close()
    assert seen[0] == seen[1]


def test_two_runs_are_bit_identical(gpu: Remote) -> None:
    """The second one evaluates and writes on the way, which leaves no trace."""
    seen = []
    for looks in (False, True):
        session = gpu.open(MODEL, TRAIN, trajectory.tokens())
        trajectory.start(session)
        metrics = []
        for _ in range(4):
            metrics += steps(session, 1)
            if looks:
                session.evaluate("val")
                session.sample([1, 2], 5)
                session.loss(np.ones((1, 3), int), np.ones((1, 3), int))
        seen.append((metrics, state(session)))
        session.close()
    assert seen[0] == seen[1]


def test_stop_and_resume_is_exact(gpu: Remote) -> None:
    assert_resumes_exactly(gpu, before=3, after=3)


@pytest.fixture(scope="module")
def pair(gpu: Remote) -> Iterator[tuple[RemoteSession, NumpySession]]:
    """An executor's session and the oracle with equal weights, to be used; large vocabulary."""
    model = ModelConfig(vocab_size=9000, ctx=24, n_layer=2, n_head=2, d_model=18, dropout=0.2)
    train = TrainConfig(batch_size=7)
    corpus = np.random.default_rng(1).integers(9000, size=600, dtype=np.uint32)
    oracle = NumpySession(model, train, corpus, "infer")
    oracle.init_weights()
    session = gpu.open(model, train, corpus, "infer")
    for name in oracle.names():
        value = np.float32(8 * oracle.tensor(name))
        oracle.set(name, value)
        session.set(name, value)
    yield session, oracle
    session.close()


@pytest.mark.parametrize("shape", [(1, 1), (7, 24), (2, 5), (9, 24), (1, 24), (21, 8)])
def test_logits_of_any_batch(
    pair: tuple[RemoteSession, NumpySession], shape: tuple[int, int]
) -> None:
    """More rows than the plan's go through in parts, and the head in chunks of 128 rows."""
    session, oracle = pair
    tokens = np.random.default_rng(4).integers(9000, size=shape)
    expected = oracle.logits(tokens)
    error = np.linalg.norm(session.logits(tokens) - expected)
    assert error <= GPU * np.linalg.norm(expected)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 24), (3, 11), (12, 14)])
def test_loss_of_any_batch(
    pair: tuple[RemoteSession, NumpySession], shape: tuple[int, int], train: bool
) -> None:
    session, oracle = pair
    ids = np.random.default_rng(5).integers(9000, size=(2, *shape))
    given = {"train": train, "step": 3, "micro": 2}
    assert session.loss(*ids, **given) == pytest.approx(oracle.loss(*ids, **given), rel=GPU)


def test_evaluation_windows(gpu: Remote) -> None:
    """Splits whose last window is short, absent, or all there is."""
    for n_val in (2, 9, 24, 25, 26, 60):
        corpus = np.resize(trajectory.tokens(), 10 * n_val)
        if len(corpus) - n_val < MODEL.ctx + 1:
            continue
        oracle = NumpySession(MODEL, TRAIN, corpus, "infer")
        session = gpu.open(MODEL, TRAIN, corpus, "infer")
        for name, value in trajectory.weights().items():
            oracle.set(name, value)
            session.set(name, value)
        for batches in (0, 2):
            expected = oracle.evaluate("val", batches)
            assert session.evaluate("val", batches) == pytest.approx(expected, rel=GPU), n_val
        session.close()


def test_writing_on_past_the_context(gpu: Remote) -> None:
    """Prefill, cache, and the window's rule: the oracle's likeliest tokens, and one more step."""
    oracle = NumpySession(MODEL, TRAIN, trajectory.tokens(), "train")
    session = gpu.open(MODEL, TRAIN, trajectory.tokens())
    for name, value in trajectory.weights().items():
        for each in (oracle, session):
            each.set(name, 6 * value)
    for prompt in ([3], [1, 2, 3, 4], list(range(28)), [5] * 24):
        expected = list(islice(oracle.generate(prompt, temperature=0), 40))
        assert session.sample(prompt, 40, temperature=0.0) == expected
        drawn = list(islice(oracle.generate(prompt, 1.1, 7, 0.9, seed=3), 40))
        assert session.sample(prompt, 40, 1.1, 7, 0.9, 3) == drawn
    session.close()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_step_that_is_not_finite_changes_nothing(gpu: Remote, bad: float) -> None:
    session = gpu.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(session)
    steps(session, 1)
    name = "transformer.h.0.mlp.c_fc.weight"
    weight = session.tensor(name).copy()
    weight[3, 5] = bad
    session.set(name, weight)
    before = state(session)
    metrics = session.step()
    assert not metrics.finite
    assert not (np.isfinite(metrics.loss) and np.isfinite(metrics.grad_norm))
    assert state(session) == before
    assert session.step_number == 2
    session.close()
