"""Every kernel of every build against the oracle's operation, over tests/cases.py."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from case import Case, widen
from cases import CASES
from remote import Remote


@cache
def answer(case: Case) -> tuple[dict, dict, dict]:
    """Inputs, the oracle's outputs, their bounds."""
    inputs = case.inputs()
    x = {name: widen(value) for name, value in inputs.items()}
    expected = case.expected(x)
    return inputs, expected, case.bound(x, expected)


def run(core: Remote, case: Case, threads: int = 1) -> dict[str, np.ndarray]:
    """The kernel's outputs by name, shaped like the oracle's."""
    inputs, expected, _ = answer(case)
    params, names = case.call()
    tensors = []
    for name in names:
        if name == "":
            tensors.append(np.zeros(0, np.float32))
        elif name in inputs:
            tensors.append(inputs[name])
        else:  # NaN: an element that the kernel leaves out is seen
            n = expected[name].size * np.dtype(case.dtype).itemsize // 4
            tensors.append(np.full(n, np.nan, np.float32))
    got = core.op(case.op, params, tensors, threads)
    outputs = {case.in_place.get(n, n): g for n, g in zip(names, got, strict=True)}
    return {n: outputs[n].view(case.dtype).reshape(y.shape) for n, y in expected.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernel_is_within_its_bound(core: Remote, case: Case, measured) -> None:
    _, expected, bound = answer(case)
    for name, got in run(core, case).items():
        error = abs(got.astype(np.float64) - expected[name])
        limit = np.broadcast_to(bound[name], error.shape)
        share = float((error / np.maximum(limit, 1e-45)).max())  # NaN where anything is NaN
        worst = np.unravel_index(np.argmax(error - limit), error.shape)
        measured("kernel", core.name, share, f"{case.name} {name}")
        assert share <= 1, (
            f"{case.op} {name}{list(map(int, worst))} is {got[worst]}, the oracle's "
            f"{expected[name][worst]}; off by {error[worst]:.2e}, allowed {limit[worst]:.2e}"
        )
