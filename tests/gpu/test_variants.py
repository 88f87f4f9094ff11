"""Every choice of kernels that training is offered, through every executor, on the usual bounds.

Continuous integration runs each kernel once, on the settings that reach its edges. All choices on
all settings: TABGPT_EVERY_VARIANT=1 python -m pytest tests/gpu/test_variants.py
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import gpu_variants
import one_step
import pytest
import trajectory
from one_step import GPU, SETTINGS
from remote import Remote
from resuming import assert_resumes_exactly, state, steps
from trajectory import GPU_BOUND, MODEL, TRAIN

EDGES = ("width 42 in 3 heads, dropout", "nanogpt-cpu's width")
"""Sizes that are no multiples of 4; and rows enough for several tiles, and for K in parts."""


def briefly() -> list[str]:
    """Choices that hold each kernel at least once, without the default one."""
    families = [
        [c for c in gpu_variants.TRAINED if c.startswith(f)] for f in ("matmul", "attention")
    ]
    products, attentions = ([c for c in f if c in gpu_variants.NOT_DEFAULT] for f in families)
    return [
        f"{product} {attentions[i % len(attentions)]}" if i < len(attentions) else product
        for i, product in enumerate(products)
    ]


EVERY = bool(os.environ.get("TABGPT_EVERY_VARIANT"))
CHOICES = gpu_variants.TRAINED_TOGETHER if EVERY else briefly()


VENDORS = gpu_variants.VENDORS if EVERY else ("qualcomm", "arm")
BY_VENDOR = [(EDGES[1], f"vendor={name}") for name in VENDORS]
"""Other parts of K than without a vendor."""


@pytest.mark.parametrize(
    ("name", "choice"),
    [*itertools.product(SETTINGS if EVERY else EDGES, CHOICES), *BY_VENDOR],
)
def test_step_agrees_by_tensor_name(
    gpu: Remote, name: str, choice: str, measured: Callable
) -> None:
    wanted, expected = SETTINGS[name], one_step.oracle(name)
    session = gpu.open(wanted.model, wanted.train, wanted.corpus(), "probe", variants=choice)
    got = one_step.drive(session, wanted)
    session.close()

    def note(share: float, tensor: str) -> None:
        measured(gpu.name, share, f"step {tensor} ({name}; {choice})")

    wrong = one_step.differences(got, expected, GPU, note)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("choice", CHOICES)
def test_fifty_steps_repeat_and_stay_within_the_bound(
    gpu: Remote, choice: str, measured: Callable
) -> None:
    """Twice the same bits for three of them, and the oracle's losses for all."""
    seen = []
    for _ in range(2):
        session = gpu.open(MODEL, TRAIN, trajectory.tokens(), variants=choice)
        trajectory.start(session)
        seen.append((steps(session, 3), state(session)))
        session.close()
    assert seen[0] == seen[1]
    session = gpu.open(MODEL, TRAIN, trajectory.tokens(), variants=choice)
    distance = trajectory.run(session).distance(trajectory.oracle())
    session.close()
    measured(gpu.name, distance / GPU_BOUND, f"trajectory, off by {distance:.1e} ({choice})")
    assert distance <= GPU_BOUND


@pytest.mark.parametrize("choice", CHOICES)
def test_stop_and_resume_is_exact(gpu: Remote, choice: str) -> None:
    assert_resumes_exactly(gpu, before=2, after=2, variants=choice)
