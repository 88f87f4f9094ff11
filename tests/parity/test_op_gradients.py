"""The oracle's backward operations are the derivatives of its forward ones, over tests/cases.py.

Two witnesses, both along a random direction in every variable, so that one number
checks every element at any size: the complex step Im f(x + ihd)/h, exact to
rounding (Squire & Trapp 1998), and the central difference, which shares no
complex arithmetic with it.
"""

from __future__ import annotations

import numpy as np
import pytest
from case import Case, widen
from cases import CASES

GRADIENTS = [case for case in CASES if case.variables]


def setting(case: Case) -> tuple[dict, dict, dict]:
    """Inputs in float64, the oracle's gradients, a direction for each variable."""
    x = {name: widen(value) for name, value in case.inputs().items()}
    y = case.expected(x)
    gradients = {v: y[out] - x.get(out, 0) for out, v in case.variables.items()}
    for variable, gradient in gradients.items():  # linear in one that is no input: start at 0
        x.setdefault(variable, np.zeros(gradient.shape))
    rng = np.random.default_rng(7)
    directions = {v: rng.standard_normal(g.shape) for v, g in gradients.items()}
    return x, gradients, directions


@pytest.mark.parametrize("case", GRADIENTS, ids=lambda case: case.name)
def test_gradient_is_the_complex_step_derivative(case: Case) -> None:
    x, gradients, directions = setting(case)
    for variable, direction in directions.items():
        h = 1e-30
        moved = case.primal({**x, variable: x[variable] + 1j * h * direction})
        terms = gradients[variable] * direction
        # lse, mean and rstd reach a backward pass as float32: 1e-6 is their rounding.
        assert abs(moved.imag / h - terms.sum()) <= 1e-6 * np.linalg.norm(terms), variable


@pytest.mark.parametrize("case", GRADIENTS, ids=lambda case: case.name)
def test_gradient_is_the_central_difference(case: Case) -> None:
    x, gradients, directions = setting(case)
    for variable, direction in directions.items():
        h = 1e-5
        ahead, behind = (
            case.primal({**x, variable: x[variable] + sign * h * direction}) for sign in (1, -1)
        )
        terms = gradients[variable] * direction
        noise = 1e-11 * (abs(ahead) + abs(behind)) / h
        assert abs((ahead - behind) / (2 * h) - terms.sum()) <= (
            1e-5 * np.linalg.norm(terms) + noise
        ), variable
