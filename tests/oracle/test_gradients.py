"""Every gradient of the oracle, against two derivatives that know nothing of it.

Complex step (Squire & Trapp 1998): Im f(x + ih) / h has no subtraction, so h may be
1e-30 and the derivative is exact to rounding. Central differences are the second
witness, from real arithmetic alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from models import CASES, Case, random_params

from tabgpt import layout, model, ops

H = 1e-30


def by_name(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def gradients(case: Case) -> tuple[model.Tensors, model.Tensors, model.Tensors]:
    """params, their gradients, those of the activations."""
    params = random_params(case.config)
    tokens, targets = case.batch()
    acts = model.forward(case.config, params, tokens, targets, case.dropout())
    grads, dacts = model.backward(case.config, params, acts, tokens, targets, case.dropout())
    return params, grads, dacts


def complex_step(loss, array: np.ndarray) -> np.ndarray:
    """d loss / d array, one element at a time; loss takes the perturbed array."""
    derivative = np.empty(array.shape)
    for index in np.ndindex(array.shape):
        moved = array.astype(complex)
        moved[index] += 1j * H
        derivative[index] = loss(moved).imag / H
    return derivative


def assert_close(got: np.ndarray, expected: np.ndarray, scale: float, what: str) -> None:
    """Within rounding of the largest gradient: k's bias, for one, is zero up to rounding."""
    assert got.shape == expected.shape, what
    error = np.abs(got - expected).max()
    assert error <= 1e-13 * scale, f"{what}: off by {error:.1e} of {scale:.1e}"


@pytest.mark.parametrize("case", by_name(CASES))
def test_every_parameter_by_complex_step(case: Case) -> None:
    params, grads, _ = gradients(case)
    tokens, targets = case.batch()
    assert grads.keys() == params.keys()
    scale = max(np.abs(grad).max() for grad in grads.values())
    for name, array in params.items():

        def loss(moved: np.ndarray, name: str = name) -> complex:
            return model.loss(case.config, params | {name: moved}, tokens, targets, case.dropout())

        assert_close(grads[name], complex_step(loss, array), max(scale, 1e-3), name)


@pytest.mark.parametrize("case", by_name(CASES))
def test_every_parameter_by_central_differences(case: Case) -> None:
    params, grads, _ = gradients(case)
    tokens, targets = case.batch()
    scale = max(np.abs(grad).max() for grad in grads.values())
    h = 1e-5
    for name, array in params.items():
        for index in np.ndindex(array.shape):
            values = []
            for delta in (h, -h):
                moved = array.copy()
                moved[index] += delta
                values.append(
                    model.loss(case.config, params | {name: moved}, tokens, targets, case.dropout())
                )
            numeric = (values[0] - values[1]) / (2 * h)
            assert grads[name][index] == pytest.approx(numeric, abs=1e-6 * max(scale, 1)), name
