"""The page's GPU path on Dawn (what Chromium compiles and validates, by the page's own code): its
objects, its limits, and a device that is lost. What it computes is held by test_sessions.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
import trajectory
from remote import CoreError, Remote
from trajectory import MODEL, TRAIN

RESTARTS = 3


@pytest.fixture(scope="module")
def dawn() -> Iterator[Remote]:
    """Skips where there is no adapter, unless TABGPT_NEEDS_GPU is set, as .ci/run does."""
    remote = Remote("webgpu-dawn")
    try:
        remote("about")
    except RuntimeError as error:
        if os.environ.get("TABGPT_NEEDS_GPU"):
            raise
        pytest.skip(f"no Vulkan driver for Dawn; run `make vulkan` ({error})")
    yield remote
    remote.stop()


def test_nothing_is_made_after_the_first_step_and_all_is_given_back(dawn: Remote) -> None:
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


def test_a_plan_over_a_limit_is_refused_with_the_way_out(dawn: Remote) -> None:
    model = replace(MODEL, vocab_size=65536, d_model=4096, n_head=32)
    with pytest.raises(CoreError, match=r"needs \d+.*maxStorageBufferBindingSize is \d+"):
        dawn.open(model, TRAIN, mode="infer")


def test_a_device_that_is_lost_is_an_error_and_the_next_session_has_a_new_one(dawn: Remote) -> None:
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
