"""Our erf is erf: on the reals against the C library, beside them against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special
from tabgpt import ops
from tabgpt.erf import erf

POINTS = np.concatenate(
    [
        np.linspace(-8, 8, 20_001),
        np.geomspace(1e-300, 1, 301),
        [0.0, -0.0, 0.46875, -0.46875, np.nextafter(0.46875, 1), 4, 6, -6, 1e300],
    ]
)


def test_real_arguments_to_4_ulp() -> None:
    expected = np.array([math.erf(x) for x in POINTS])
    assert (np.abs(erf(POINTS) - expected) <= 4 * np.spacing(np.abs(expected))).all()


def test_infinities_and_nan() -> None:
    got = erf(np.array([np.inf, -np.inf, np.nan]))
    assert got[:2].tolist() == [1, -1]
    assert np.isnan(got[2])


def test_complex_step_is_the_gaussian() -> None:
    x = POINTS[np.abs(POINTS) < 5.9]
    slope = erf(x + 1e-30j).imag / 1e-30
    np.testing.assert_allclose(slope, special.erf(x + 1e-30j).imag / 1e-30, rtol=1e-12)
    np.testing.assert_allclose(slope, 2 / np.sqrt(np.pi) * np.exp(-x * x), rtol=1e-12)


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu_erf"])
def test_gelu_and_its_slope(activation: str) -> None:
    x = np.linspace(-6, 6, 1001)
    if activation == "gelu_erf":
        expected = x * special.ndtr(x)
    else:
        expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(ops.gelu_forward(x, activation), expected, atol=2e-15)
    slope = ops.gelu_forward(x + 1e-30j, activation).imag / 1e-30
    got = ops.gelu_backward(np.full_like(x, 3), x, activation)
    np.testing.assert_allclose(got, 3 * slope, atol=1e-13)


def test_the_two_gelus_are_near_but_not_equal() -> None:
    x = np.linspace(-4, 4, 801)
    difference = np.abs(ops.gelu_forward(x, "gelu_tanh") - ops.gelu_forward(x, "gelu_erf"))
    assert 1e-4 < difference.max() < 1e-3
