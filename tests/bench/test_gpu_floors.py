"""The predicted times of dispatches: sums, and the rule that makes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import gpu_floors


def test_a_step_is_the_sum_of_its_dispatches() -> None:
    *dispatches, step = gpu_floors.rows()
    assert step["dispatch"] == "step"
    for gpu in gpu_floors.GPUS:
        # Clears count in the time of the step and not among its dispatches.
        total = sum(row["ms"][gpu.name] * max(row["a_step"], 1) for row in dispatches)
        assert step["ms"][gpu.name] == pytest.approx(total, rel=1e-9)
        for row in dispatches:
            by_peak = row["operations"] / (gpu_floors.peak_tflops(gpu) * 1e9)
            by_memory = row["bytes"] / (gpu.gb_s * 1e6)
            assert row["ms"][gpu.name] >= max(by_peak, by_memory) * (1 - 1e-9)
