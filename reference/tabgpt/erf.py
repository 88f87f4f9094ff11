"""The error function in float64, for real and complex arrays, with numpy alone.

W. J. Cody, "Rational Chebyshev approximations for the error function", Math.
Comp. 23 (1969). Numpy has no erf, the standard library's takes one real number at
a time. A rational function continues into the complex plane, so a complex step
passes through it; far from the real axis it is not erf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# erf(x) = x P(x^2) / Q(x^2) for |x| <= 0.46875; highest power first, as all below.
_P = (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
      3.77485237685302021e2, 3.20937758913846947e3)  # fmt: skip
_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
      2.84423683343917062e3)  # fmt: skip
# erfc(x) = exp(-x^2) R(x) / S(x) beyond; Cody's for x <= 4, where erf is 1 to 2e-8.
_R = (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
      6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
      1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3)  # fmt: skip
_S = (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
      1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
      3.43936767414372164e3, 1.23033935480374942e3)  # fmt: skip
_FAR = 6.0
"""erfc(6) is 2e-17: beyond, erf is 1 in float64. Between 4 and 6, R/S is good enough for that."""


def _polynomial(coefficients: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += coefficient
    return value


def erf(x: NDArray[Any]) -> NDArray[Any]:
    """2/sqrt(pi) times the integral of exp(-t^2) from 0 to x, elementwise; real x: to 4 ulp."""
    x = np.asarray(x)
    size, sign = np.abs(x.real), np.where(x.real < 0, -1.0, 1.0)
    near, far = size <= 0.46875, size >= _FAR
    middle = (size > 0.46875) & ~far
    out = np.full_like(x, np.nan)  # what is in none of the three is NaN
    a, b = x[near], (sign * x)[middle]
    out[near] = a * _polynomial(_P, a * a) / _polynomial(_Q, a * a)
    out[middle] = sign[middle] * (1 - np.exp(-b * b) * _polynomial(_R, b) / _polynomial(_S, b))
    out[far] = sign[far]
    return out
