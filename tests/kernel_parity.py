"""A case on the GPU's kernels, in every way that the model uses, against the oracle's bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from case import Case, widen
from kernel_calls import calls
from kernel_runner import Kernels
from run_case import answer
from wgsl_bounds import wgsl_bound


def assert_within_bounds(
    kernels: Kernels, case: Case, measured: Callable[[str, float, str], None]
) -> None:
    """`measured` hears of each error as a share of its bound."""
    inputs, expected, bound = answer(case)
    limits = wgsl_bound(case, {name: widen(x) for name, x in inputs.items()}, expected, bound)
    for call in calls(case):
        if not kernels.takes(call.dispatches):
            continue
        got = kernels.run(call.tensors, call.dispatches, list(call.outputs.values()))
        for name, tensor in call.outputs.items():
            value = call.finish.get(name, np.asarray)(got[tensor])
            error = abs(value.astype(np.float64) - expected[name])
            limit = np.broadcast_to(limits[name] + call.lost.get(name, 0.0), error.shape)
            share = float((error / np.maximum(limit, 1e-45)).max())  # NaN where anything is NaN
            worst = np.unravel_index(np.argmax(error - limit), error.shape)
            measured(kernels.name, share, f"{case.name} {call.variant} {name}")
            assert share <= 1, (
                f"{case.op} {call.variant} {name}{list(map(int, worst))} is {value[worst]}, the "
                f"oracle's {expected[name][worst]}; off by {error[worst]:.2e}, "
                f"allowed {limit[worst]:.2e}"
            )
