"""Kernels and whole steps on the GPU inside a tab of Chromium, against the oracle by name.

What takes little time, of the lists that tests/gpu runs in full under both compilers;
`python tests/chromium_gpu.py` runs them in full here.
"""

from __future__ import annotations

from collections.abc import Iterator

import gpu_tab
import one_step
import pytest
import trajectory
from case import Case
from gpu_cases import GPU_CASES
from gpu_tab import GpuTab
from kernel_parity import assert_within_bounds
from one_step import GPU, SETTINGS
from resuming import assert_resumes_exactly
from trajectory import MODEL, TRAIN

MOST_FLOPS = 1.1e7
"""A fifth of a second each for a GPU that is a program; attention over 512 positions is within."""
QUICK = [case for case in GPU_CASES if case.flops() <= MOST_FLOPS]
STEPS = ("usual", "one of everything", "width 42 in 3 heads, dropout", "head of 128, not clipped")


@pytest.fixture(scope="module")
def tab() -> Iterator[GpuTab]:
    with gpu_tab.open_tab() as tab:
        yield tab


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_kernel_is_within_its_bound(tab: GpuTab, case: Case) -> None:
    assert_within_bounds(tab, case, lambda name, share, where: None)


@pytest.mark.parametrize("name", STEPS)
def test_step_agrees_by_tensor_name(tab: GpuTab, name: str) -> None:
    """Every activation, every gradient of one, every parameter's, and the update."""
    wanted = SETTINGS[name]
    session = tab.open(wanted.model, wanted.train, wanted.corpus(), "probe")
    got = one_step.drive(session, wanted)
    session.close()
    wrong = one_step.differences(got, one_step.oracle(name), GPU, lambda share, tensor: None)
    assert not wrong, "\n".join(wrong)


def test_two_runs_are_bit_identical_and_so_is_a_resumed_one(tab: GpuTab) -> None:
    first = []
    for _ in range(2):
        session = tab.open(MODEL, TRAIN, trajectory.tokens())
        trajectory.start(session)
        first.append([tuple(session.step()) for _ in range(2)])
        session.close()
    assert first[0] == first[1]
    assert_resumes_exactly(tab, before=1, after=1)
