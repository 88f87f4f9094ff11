"""The page's GPU path on Dawn: what Chromium compiles and validates, run by the page's own code.

Every setting's plan runs here, so a dispatch that WebGPU forbids (a buffer both read and
written, a grid too large) fails by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import one_step
import pytest
import trajectory
from dawn import Dawn
from one_step import GPU, SETTINGS
from remote import CoreError, Remote
from trajectory import GPU_BOUND, MODEL, STEPS, TRAIN

RESTARTS = 3


@pytest.fixture(scope="module")
def dawn() -> Iterator[Dawn]:
    """Skips where there is no adapter, unless TABGPT_NEEDS_GPU is set, as .ci/run does."""
    remote = Dawn()
    try:
        remote("about")
    except RuntimeError as error:
        if os.environ.get("TABGPT_NEEDS_GPU"):
            raise
        pytest.skip(f"no Vulkan driver for Dawn; run `make vulkan` ({error})")
    yield remote
    remote.stop()


@pytest.mark.parametrize("name", SETTINGS)
def test_step_agrees_by_tensor_name(dawn: Dawn, name: str) -> None:
    wanted = SETTINGS[name]
    session = dawn.open(wanted.model, wanted.train, wanted.corpus(), "probe")
    got = one_step.drive(session, wanted)
    session.close()
    wrong = one_step.differences(got, one_step.oracle(name), GPU, lambda share, tensor: None)
    assert not wrong, "\n".join(wrong)


def test_fifty_steps_stay_within_the_bound_and_repeat_bit_for_bit(dawn: Dawn) -> None:
    """Repeats on a second session, from the second half's checkpointed tensors on."""
    session = dawn.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(session)
    half = STEPS // 2
    steps = [session.step() for _ in range(half)]
    kept = {
        n: session.tensor(n) for n in session.names() if n.startswith(("transformer.", "m:", "v:"))
    }
    steps += [session.step() for _ in range(half, STEPS)]
    got = trajectory.Trajectory(steps, session.evaluate("val"))
    session.close()
    assert got.distance(trajectory.oracle()) <= GPU_BOUND

    again = dawn.open(MODEL, TRAIN, trajectory.tokens())
    for name, value in kept.items():
        again.set(name, value)
    again.step_number = half
    assert [again.step() for _ in range(half, STEPS)] == steps[half:]
    again.close()


def test_sampling_repeats_and_follows_the_cpu(dawn: Dawn) -> None:
    """Greedy, past a full window, so that the cache is filled anew several times."""
    session = dawn.open(MODEL, TRAIN, mode="infer")
    cpu = Remote("native-generic")
    reference = cpu.open(MODEL, TRAIN, mode="infer")
    for each in (session, reference):
        trajectory.start(each)
    wanted = reference.sample([1, 2, 3], 2 * MODEL.ctx, temperature=0)
    assert session.sample([1, 2, 3], 2 * MODEL.ctx, temperature=0) == wanted
    drawn = [session.sample([5], 12, temperature=1.0, top_k=9, top_p=0.9, seed=4) for _ in range(2)]
    assert drawn[0] == drawn[1]
    session.close()
    cpu.stop()


def test_a_step_that_is_not_finite_changes_nothing(dawn: Dawn) -> None:
    session = dawn.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(session)
    weight = session.tensor("transformer.wte.weight")
    session.set(
        "transformer.wte.weight", np.where(np.arange(weight.size) == 3, np.inf, weight.ravel())
    )
    state = [n for n in session.names() if n.startswith(("transformer.", "m:", "v:"))]
    before = {name: session.tensor(name).tobytes() for name in state}
    metrics = session.step()
    assert not metrics.finite
    assert {name: session.tensor(name).tobytes() for name in state} == before
    session.close()


def test_nothing_is_made_after_the_first_step_and_all_is_given_back(dawn: Dawn) -> None:
    model = replace(MODEL, n_layer=1, d_model=12, ctx=8)
    train = replace(TRAIN, steps=200, grad_accum=1)
    counts = []
    for _ in range(RESTARTS):
        session = dawn.open(model, train, trajectory.tokens())
        session.init_weights()
        session.step()
        first = dawn("live")
        for _ in range(199):
            session.step()
        session.evaluate("val", 2)
        assert dawn("live") == first
        session.close()
        counts.append(dawn("live"))
    assert counts[0]["buffer"] == counts[0]["bindGroup"] == 0
    assert counts[1:] == counts[:1] * 2  # compiled pipelines stay, once


def test_a_plan_over_a_limit_is_refused_with_the_way_out(dawn: Dawn) -> None:
    model = replace(MODEL, vocab_size=65536, d_model=4096, n_head=32)
    with pytest.raises(CoreError, match=r"needs \d+.*maxStorageBufferBindingSize is \d+"):
        dawn.open(model, TRAIN, mode="infer")


def test_a_device_that_is_lost_is_an_error_and_the_next_session_has_a_new_one(dawn: Dawn) -> None:
    session = dawn.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(session)
    first = session.step()
    dawn("lose")
    for _ in range(2):
        with pytest.raises(CoreError, match="the GPU was lost"):
            session.step()
    again = dawn.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(again)
    assert again.step() == first
    again.close()
