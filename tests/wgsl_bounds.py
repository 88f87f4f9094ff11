"""What WGSL's less exact functions add to the bounds of tests/bounds.py.

WGSL's accuracy table promises correctly rounded +, - and *; a quotient to 2.5 ulp;
inverseSqrt to 2 ulp; sqrt as 1 / inverseSqrt. exp and log are the kernels' own, to
an ulp or two as on the CPU (shaders/math.wgsl), and tanh is not used. Numbers below
2^-126 may become 0, and exp is 0 below -87.3. An ulp is at most EPS of the number.
Every other error is the CPU's, so its bound is the start of this one.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from bounds import EPS, Array, Arrays
from case import Case, dropout
from case_attention import AttentionBackward, AttentionDecode, AttentionForward
from case_dense import GeluBackward, GeluForward, LayernormBackward, LayernormForward, Matmul
from case_ends import AdamW, CrossEntropyBackward, SumOfSquares
from tabgpt import ops
from tabgpt.optim import learning_rate

QUOTIENT = 2.5 * EPS
INVERSE_SQRT = 2 * EPS
SQRT = QUOTIENT + INVERSE_SQRT
VANISHING = 2.0**-125  # above both 2^-126, the smallest normal float32, and exp(-87.3)


@singledispatch
def extra(case: Case, x: Arrays, y: Arrays) -> Arrays:
    """By output, what comes on top of the CPU's bound; nothing for sums and products alone."""
    return {}


def wgsl_bound(case: Case, x: Arrays, y: Arrays, bound: Arrays) -> Arrays:
    """The CPU's bound of each output and what WGSL may add."""
    if isinstance(case, SumOfSquares):
        return {"out": sum_of_squares(case.n) * y["out"]}
    more = extra(case, x, y)
    return {name: limit + more.get(name, 0.0) + VANISHING for name, limit in bound.items()}


def sum_of_squares(n: int) -> float:
    """Relative: 16 squares a thread, a tree of 256, both again over chunks; then sqrt, squared."""
    chunks = -(-n // 4096)
    depth = 16 + 8 + -(-chunks // 256) + 8
    return (depth + 2) * EPS / 2 + 2 * SQRT


def _gelu(x: Array) -> Array:
    """The sigmoid's, or Phi's argument's, quotient."""
    return QUOTIENT * abs(x)


@extra.register
def _(case: GeluForward, x: Arrays, y: Arrays) -> Arrays:
    return {"out": _gelu(x["x"])}


@extra.register
def _(case: GeluBackward, x: Arrays, y: Arrays) -> Arrays:
    """s and x s (1 - s) both hold it."""
    return {"dx": 2 * QUOTIENT * abs(x["dout"]) * (1 + np.minimum(abs(x["x"]), 6))}


@extra.register
def _(case: Matmul, x: Arrays, y: Arrays) -> Arrays:
    if case.gelu == "none":
        return {}
    return {"out": _gelu(y["pre_gelu"]) * dropout(case.p).factor((case.M, case.N), 0, 0)}


@extra.register
def _(case: LayernormForward, x: Arrays, y: Arrays) -> Arrays:
    """Mean and variance are quotients by C; rstd takes half the variance's error."""
    mean, rstd = QUOTIENT * abs(y["mean"]), QUOTIENT / 2 + INVERSE_SQRT
    norm = abs(x["x"] - y["mean"][:, None]) * y["rstd"][:, None]
    out = abs(x["weight"]) * (mean[:, None] * y["rstd"][:, None] + rstd * norm)
    return {"out": out, "mean": mean, "rstd": rstd * y["rstd"]}


@extra.register
def _(case: LayernormBackward, x: Arrays, y: Arrays) -> Arrays:
    """Two means over C."""
    rstd = x["rstd"][:, None]
    norm = abs(x["x"] - x["mean"][:, None]) * rstd
    dnorm = abs(x["dout"] * x["weight"])
    means = dnorm.mean(-1, keepdims=True) + norm * (dnorm * norm).mean(-1, keepdims=True)
    return {"dx": QUOTIENT * rstd * means}


@extra.register
def _(case: AttentionForward, x: Arrays, y: Arrays) -> Arrays:
    """The sum over keys, divided by the sum of the exponentials; up to T probabilities vanish."""
    lost = case.T * VANISHING * abs(x["qkv"]).max() / (1 - case.p)
    return {"out": QUOTIENT * abs(y["out"]) + lost}


@extra.register
def _(case: AttentionDecode, x: Arrays, y: Arrays) -> Arrays:
    return {"out": QUOTIENT * abs(y["out"]) + case.n * VANISHING * abs(x["v_cache"]).max()}


@extra.register
def _(case: AttentionBackward, x: Arrays, y: Arrays) -> Arrays:
    """A probability that vanishes takes along its dP - D, and the q, k or do that it multiplies."""
    largest = {name: abs(value).max() for name, value in x.items()}
    dp = case.D * largest["dout"] * (largest["qkv"] / (1 - case.p) + largest["out"])
    return {"dqkv": case.T * VANISHING * (1 + dp) * (largest["qkv"] + largest["dout"])}


@extra.register
def _(case: CrossEntropyBackward, x: Arrays, y: Arrays) -> Arrays:
    softmax = ops.cross_entropy_backward(x["logits"][None], x["targets"][None], 1.0)[0]
    softmax[np.arange(case.R), x["targets"]] += 1
    return {"dlogits": QUOTIENT * case.scale * softmax}


@extra.register
def _(case: AdamW, x: Arrays, y: Arrays) -> Arrays:
    """m by the root of v."""
    train, t = case.train, case.step + 1
    root = np.sqrt(y["v"] / (1 - train.beta2**t)) + train.eps
    m = train.beta1 * abs(x["m"]) + (1 - train.beta1) * abs(x["g"] * case.grad_scale)
    update = learning_rate(train, case.step) * m / (1 - train.beta1**t) / root
    return {"p": (QUOTIENT + SQRT) * update}
