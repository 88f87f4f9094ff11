"""Every GPU kernel under both compilers against the oracle's operation, over tests/gpu_cases.py."""

from __future__ import annotations

import pytest
from case import Case
from gpu_cases import GPU_CASES
from kernel_parity import assert_within_bounds
from kernel_runner import Kernels


@pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)
def test_gpu_kernel_is_within_its_bound(kernels: Kernels, case: Case, measured) -> None:
    assert_within_bounds(kernels, case, measured)
