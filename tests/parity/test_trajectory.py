"""Fifty optimizer steps on every build, loss by loss; and the bound sees what matters."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import trajectory
from remote import Remote
from trajectory import ABLATIONS, BOUND, MODEL, STEPS, TRAIN, Trajectory


@cache
def oracle() -> Trajectory:
    return trajectory.oracle()


def test_losses_stay_within_the_bound(core: Remote, measured) -> None:
    session = core.open(MODEL, TRAIN, trajectory.tokens())
    got, expected = trajectory.run(session), oracle()
    session.close()
    distance = got.distance(expected)
    measured("trajectory", core.name, distance / BOUND, f"largest difference {distance:.1e}")
    assert distance <= BOUND
    assert [step.step for step in got.steps] == list(range(STEPS))
    lr = [step.lr for step in expected.steps]
    assert [step.lr for step in got.steps] == pytest.approx(lr, rel=1e-12)
    # A norm sums squares of all gradients, so it drifts more than a mean loss does.
    assert got.grad_norms == pytest.approx(expected.grad_norms, rel=10 * BOUND)


def test_no_part_of_a_step_is_idle() -> None:
    norms = oracle().grad_norms
    assert 5 <= np.sum(norms > TRAIN.grad_clip) <= STEPS - 5
    assert 0 < TRAIN.warmup_steps < STEPS == TRAIN.steps
    assert (TRAIN.schedule, TRAIN.grad_accum, MODEL.dropout) == ("cosine", 2, 0.1)
    losses = oracle().losses
    assert losses[-5:].mean() < 0.7 * losses[:5].mean()  # it learns


@pytest.mark.parametrize("part", ABLATIONS)
def test_the_bound_sees(part: str) -> None:
    """Without this part of a step the losses are 10 bounds away, at least."""
    assert ABLATIONS[part]().distance(oracle()) >= 10 * BOUND
