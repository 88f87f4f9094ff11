"""How far float32 may be from the float64 oracle, element by element, for each operation.

EPS is 2^-23: twice the error of one rounding. A sum of K terms in any order is
off by at most K * EPS/2 times the sum of the terms' magnitudes (Higham 2002,
section 4.2), so a bound here is that sum times K * EPS with a small constant (at
most 4), carried through the operation's formula to first order. A wrong term is
off by a whole term, thousands of times these bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tabgpt.config import TrainConfig
from tabgpt.optim import learning_rate

Array = NDArray[Any]
Arrays = dict[str, Array]

EPS = 2.0**-23
EXP = 4 * EPS
"""Relative error allowed to a kernel's own exp (argument reduction and polynomial)."""


def sum_of(terms: Array, axis: int | tuple[int, ...]) -> Array:
    """Of a plain sum over an axis: K * EPS * sum |term|."""
    magnitude = abs(terms).sum(axis)
    return terms.size // magnitude.size * EPS * magnitude


def gelu(x: Array) -> Array:
    """1 + tanh cancels where x is negative, so the error scales with |x|, not with the answer."""
    return 4 * EPS * abs(x)


def gelu_backward(dout: Array, x: Array) -> Array:
    """1 - tanh^2 cancels in the tails, where a factor up to x multiplies it until it is 0."""
    return 8 * EPS * abs(dout) * (1 + np.minimum(abs(x), 6))


def matmul(
    a: Array, b: Array, x: Arrays, y: Arrays, has_gelu: bool, factor: Array | float
) -> Arrays:
    """2 K eps (|A||B|), then each step of the epilogue adds its own rounding.

    GELU's slope is at most 1.13, so it carries the product's error on with 1.2.
    """
    error = 2 * a.shape[1] * EPS * (abs(a) @ abs(b)) + EPS * abs(x.get("bias", np.zeros(1)))
    bound: Arrays = {}
    if has_gelu:
        bound["pre_gelu"] = error
        error = 1.2 * error + gelu(y["pre_gelu"])
    start = abs(x.get("residual", x.get("out", np.zeros(1))))
    bound["out"] = error * factor + 2 * EPS * (abs(y["out"]) + start)
    return bound


def layernorm_forward(x: Arrays, y: Arrays) -> Arrays:
    """Mean and variance are sums over C; their errors go on through (x - mean) * rstd."""
    xs, C = x["x"], x["x"].shape[1]
    mean = EPS * abs(xs).sum(-1)
    centred = abs(xs - y["mean"][:, None])
    variance = 2 * mean * centred.mean(-1) + (C + 2) * EPS * (centred**2).mean(-1)
    rstd = y["rstd"] * (0.5 * variance * y["rstd"] ** 2 + 2 * EPS)
    weight = abs(x["weight"])
    norm = centred * y["rstd"][:, None]
    out = weight * (
        y["rstd"][:, None] * (mean[:, None] + EPS * centred)
        + centred * rstd[:, None]
        + 2 * EPS * norm
    )
    return {"out": out + EPS * (abs(y["out"]) + abs(x["bias"])), "mean": mean, "rstd": rstd}


def layernorm_backward(x: Arrays, y: Arrays) -> Arrays:
    """Two means over C inside dx, sums over R rows in dweight and dbias."""
    R, C = x["x"].shape
    rstd = x["rstd"][:, None]
    norm = abs(x["x"] - x["mean"][:, None]) * rstd
    dnorm = abs(x["dout"] * x["weight"])
    mean1, mean2 = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)
    dx = rstd * EPS * (3 * dnorm + (C + 2) * mean1 + (C + 6) * norm * mean2)
    terms = abs(x["dout"]) * norm
    return {
        "dx": dx + EPS * (abs(x["dx"]) + abs(y["dx"])),
        "dweight": (R + 4) * EPS * terms.sum(0) + EPS * abs(x["dweight"]),
        "dbias": R * EPS * abs(x["dout"]).sum(0) + EPS * abs(x["dbias"]),
    }


def _attention(qkv: Array, n_head: int, lse: Array) -> tuple[Array, ...]:
    """|q|, |k|, |v| [B,H,T,D]; probabilities and their relative error [B,H,T,T]."""
    B, T, C3 = qkv.shape
    D = C3 // 3 // n_head
    q, k, v = qkv.reshape(B, T, 3, n_head, D).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(D)
    magnitude = abs(q) @ abs(k).swapaxes(-1, -2) / np.sqrt(D)
    p = np.exp(np.where(np.tri(T, dtype=bool), scores - lse[..., None], -np.inf))
    relative = (D + 2) * EPS * magnitude + EPS * (abs(scores) + abs(lse[..., None])) + EXP
    return abs(q), abs(k), abs(v), p, relative


def attention_forward(qkv: Array, n_head: int, factor: Array | float, y: Arrays) -> Arrays:
    """An error in a score is a relative one of its probability; sums run over up to T keys."""
    B, T, C3 = qkv.shape
    _, _, v, p, relative = _attention(qkv, n_head, y["lse"])
    row = (p * relative).sum(-1, keepdims=True) + (T + 4) * EPS  # of the sum of exponentials
    out = (p * factor * (relative + row + (T + 4) * EPS)) @ v
    lse = row[..., 0] + EPS * abs(y["lse"])
    return {"out": out.swapaxes(1, 2).reshape(B, T, C3 // 3), "lse": lse}


def attention_backward(x: Arrays, n_head: int, factor: Array | float) -> Array:
    """As the forward pass, through dS = P (dP - D) and the products with K, Q and dO."""
    B, T, C = x["dout"].shape
    D = C // n_head
    q, k, v, p, relative = _attention(x["qkv"], n_head, x["lse"])
    do, o = (x[n].reshape(B, T, n_head, D).swapaxes(1, 2) for n in ("dout", "out"))
    dp = (abs(do) @ v.swapaxes(-1, -2)) * factor  # magnitudes from here on
    row = abs(do * o).sum(-1, keepdims=True)
    ds = p * (dp + row) / np.sqrt(D)
    ds_error = ds * (relative + (D + 6) * EPS)
    rounding = (T + 4) * EPS
    dq = (ds_error + rounding * ds) @ k
    dk = (ds_error + rounding * ds).swapaxes(-1, -2) @ q
    dv = (p * factor * (relative + rounding)).swapaxes(-1, -2) @ abs(do)
    return np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * C)


def embedding_backward(x: Arrays, V: int) -> Arrays:
    """A row of dwte is a sum over the token's occurrences, one of dwpe over the batch."""
    B, _, C = x["dx"].shape
    flat = x["tokens"].reshape(-1)
    counts = np.bincount(flat, minlength=V)[:, None]
    magnitude = np.zeros((V, C))
    np.add.at(magnitude, flat, abs(x["dx"]).reshape(-1, C))
    return {
        "dwte": (counts + 1) * EPS * (magnitude + abs(x["dwte"])),
        "dwpe": (B + 1) * EPS * (abs(x["dx"]).sum(0) + abs(x["dwpe"])),
    }


def _softmax(logits: Array) -> tuple[Array, Array, Array]:
    """lse [R,1], probabilities and their relative error [R,V]."""
    top = logits.max(-1, keepdims=True)
    lse = top + np.log(np.exp(logits - top).sum(-1, keepdims=True))
    p = np.exp(logits - lse)
    each = EPS * (abs(logits) + abs(lse) + abs(logits - top)) + EXP
    return lse, p, each + logits.shape[1] * EPS + (p * each).sum(-1, keepdims=True)


def cross_entropy_forward(x: Arrays) -> Array:
    """The log of a sum over V, minus a logit: the difference rounds at the size of its terms."""
    lse, p, relative = _softmax(x["logits"])
    target = np.take_along_axis(x["logits"], x["targets"][:, None].astype(np.int64), -1)
    top = x["logits"].max(-1, keepdims=True)
    error = (p * relative).sum(-1, keepdims=True)
    return (error + EPS * (abs(lse) + abs(top) + abs(target)))[:, 0]


def cross_entropy_backward(x: Arrays, scale: float) -> Array:
    """softmax - 1 cancels at the target, where the error is that of a number of size 1."""
    _, p, relative = _softmax(x["logits"])
    onehot = np.zeros_like(p)
    onehot[np.arange(len(p)), x["targets"]] = 1
    return scale * (p * relative + EPS * (p + onehot))


def adamw(train: TrainConfig, step: int, grad_scale: float, x: Arrays, y: Arrays) -> Arrays:
    """A few roundings each. Hyper-parameters must not be rounded first: 1 - 0.999f is 3e-5 off."""
    lr, g = learning_rate(train, step), abs(x["g"] * grad_scale)
    m = train.beta1 * abs(x["m"]) + (1 - train.beta1) * g
    root = np.sqrt(y["v"] / (1 - train.beta2 ** (step + 1))) + train.eps
    update = lr * m / (1 - train.beta1 ** (step + 1)) / root
    return {
        "p": 2 * EPS * abs(x["p"]) + 8 * EPS * update,
        "m": 3 * EPS * m,
        "v": 4 * EPS * y["v"],
    }
