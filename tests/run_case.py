"""A case on a build of the core, beside the oracle's answer."""

from __future__ import annotations

from functools import cache

import numpy as np
from bounds import Arrays
from case import Case, widen
from remote import Remote


@cache
def answer(case: Case) -> tuple[Arrays, Arrays, Arrays]:
    """Inputs, the oracle's outputs, their bounds."""
    inputs = case.inputs()
    x = {name: widen(value) for name, value in inputs.items()}
    expected = case.expected(x)
    return inputs, expected, case.bound(x, expected)


def run_case(core: Remote, case: Case, threads: int = 1) -> Arrays:
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
