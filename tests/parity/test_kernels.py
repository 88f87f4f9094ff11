"""Every kernel of every build against the oracle's operation, over tests/cases.py."""

from __future__ import annotations

import numpy as np
import pytest
from case import Case
from cases import CASES
from remote import Remote
from run_case import answer, run_case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernel_is_within_its_bound(core: Remote, case: Case, measured) -> None:
    _, expected, bound = answer(case)
    for name, got in run_case(core, case).items():
        error = abs(got.astype(np.float64) - expected[name])
        limit = np.broadcast_to(bound[name], error.shape)
        share = float((error / np.maximum(limit, 1e-45)).max())  # NaN where anything is NaN
        worst = np.unravel_index(np.argmax(error - limit), error.shape)
        measured("kernel", core.name, share, f"{case.name} {name}")
        assert share <= 1, (
            f"{case.op} {name}{list(map(int, worst))} is {got[worst]}, the oracle's "
            f"{expected[name][worst]}; off by {error[worst]:.2e}, allowed {limit[worst]:.2e}"
        )
