"""The operations of a GPT, forward and by-hand backward, in plain numpy.

B batch, T tokens, C = H * D channels, V vocabulary. The gradient of x is dx, and
the names are those of the C++ kernels. Everything is analytic in its inputs (no
abs, no conjugate, comparisons on real parts only), so that a complex step
checks it: a derivative without subtraction (Squire & Trapp 1998).
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import philox
from .erf import erf

Array = NDArray[Any]

LN_EPS = 1e-5

# Dropout sites: bits 3-0 of c3.
EMBEDDING, ATTENTION, ATTENTION_RESIDUAL, MLP_RESIDUAL = 0, 1, 2, 3


def linear_forward(x: Array, weight: Array, bias: Array) -> Array:
    """x [..., K] @ weight [K, N] + bias [N]."""
    return (x.reshape(-1, x.shape[-1]) @ weight + bias).reshape(*x.shape[:-1], -1)


def linear_backward(dy: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """dy [..., N] -> dx [..., K], dweight [K, N], dbias [N]."""
    dy2, x2 = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
    return (dy2 @ weight.T).reshape(x.shape), x2.T @ dy2, dy2.sum(0)


def layernorm_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
    """x [B,T,C] -> out [B,T,C], mean [B,T], rstd [B,T] (Ba et al. 2016, eq. 3)."""
    mean = x.mean(-1)  # [B,T]
    centred = x - mean[..., None]  # [B,T,C]
    rstd = 1 / np.sqrt((centred * centred).mean(-1) + LN_EPS)  # [B,T]
    return centred * rstd[..., None] * weight + bias, mean, rstd


def layernorm_backward(
    dout: Array, x: Array, weight: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """dout [B,T,C] -> dx [B,T,C], dweight [C], dbias [C]."""
    norm = (x - mean[..., None]) * rstd[..., None]  # [B,T,C]
    dnorm = dout * weight  # [B,T,C]
    # The mean and the variance each depend on every channel of the row.
    dx = dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)
    return dx * rstd[..., None], (dout * norm).sum((0, 1)), dout.sum((0, 1))


_TANH_SCALE = sqrt(2 / pi)
_TANH_CUBIC = 0.044715  # Hendrycks & Gimpel 2016, section 2


def _phi(x: Array, activation: str) -> tuple[Array, Array]:
    """Phi(x) and its derivative: the normal distribution, or its approximation by tanh."""
    if activation == "gelu_tanh":
        t = np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
        slope = _TANH_SCALE * (1 + 3 * _TANH_CUBIC * x * x)
        return 0.5 * (1 + t), 0.5 * (1 - t * t) * slope
    return 0.5 * (1 + erf(x / sqrt(2))), np.exp(-0.5 * x * x) / sqrt(2 * pi)


def gelu_forward(x: Array, activation: str) -> Array:
    """x Phi(x), of the shape of x (Hendrycks & Gimpel 2016, eq. 1)."""
    phi, _ = _phi(x, activation)
    out: Array = x * phi
    return out


def gelu_backward(dout: Array, x: Array, activation: str) -> Array:
    """dx = dout (Phi(x) + x Phi'(x)), of the shape of x."""
    phi, density = _phi(x, activation)
    dx: Array = dout * (phi + x * density)
    return dx


class Dropout(NamedTuple):
    """The masks of one micro-batch: a function of (seed, step, micro), equal on every backend."""

    p: float
    seed: int = 0
    step: int = 0
    micro: int = 0

    def factor(self, shape: tuple[int, ...], layer: int, site: int) -> Array | float:
        """1/(1-p) where an element is kept, 0 where it is dropped; without dropout just 1."""
        if self.p == 0:
            return 1.0
        words = philox.bits(
            self.seed,
            int(np.prod(shape)),
            self.step,
            philox.stream(philox.DROPOUT, self.micro, layer, site),
        )
        return self._scaled(words).reshape(shape)

    def factor_at(self, elements: NDArray[np.uint64], layer: int, site: int) -> Array | float:
        """`factor` of these elements alone, whatever the shape that they are of."""
        if self.p == 0:
            return 1.0
        stream = philox.stream(philox.DROPOUT, self.micro, layer, site)
        return self._scaled(philox.bits_at(self.seed, elements, self.step, stream))

    def _scaled(self, words: NDArray[np.uint32]) -> Array:
        kept = words >= np.uint32(int(self.p * 2**32))  # an integer comparison: equal masks
        scaled: Array = kept / (1 - self.p)
        return scaled


def _heads(qkv: Array, n_head: int) -> Array:
    """[B,T,3C] -> q, k, v, each [B,H,T,D]."""
    B, T, C3 = qkv.shape
    return qkv.reshape(B, T, 3, n_head, C3 // 3 // n_head).transpose(2, 0, 3, 1, 4)


def _causal_scores(q: Array, k: Array) -> Array:
    """q, k [B,H,T,D] -> q k^T / sqrt(D) [B,H,T,T]; minus infinity where a key is in the future."""
    T, D = q.shape[-2:]
    scores = q @ k.swapaxes(-1, -2) / sqrt(D)
    return np.where(np.tri(T, dtype=bool), scores, -np.inf)


def attention_forward(qkv: Array, n_head: int, factor: Array | float) -> tuple[Array, Array]:
    """Causal attention: qkv [B,T,3C] -> out [B,T,C], lse [B,H,T].

    lse is the natural logarithm of the sum of the exponentials of the scaled
    scores; dropout's factor [B,H,T,T] applies to the normalised probabilities.
    """
    q, k, v = _heads(qkv, n_head)
    scores = _causal_scores(q, k)
    top = scores.real.max(-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(-1, keepdims=True))  # [B,H,T,1]
    probabilities = np.exp(scores - lse)  # [B,H,T,T]
    out = (probabilities * factor) @ v  # [B,H,T,D]
    B, T, C3 = qkv.shape
    return out.swapaxes(1, 2).reshape(B, T, C3 // 3), lse[..., 0]


def attention_backward(
    dout: Array, out: Array, lse: Array, qkv: Array, n_head: int, factor: Array | float
) -> Array:
    """dout [B,T,C] -> dqkv [B,T,3C]; probabilities from lse (Dao 2023, algorithm 2)."""
    B, T, C = dout.shape
    q, k, v = _heads(qkv, n_head)
    do, o = (a.reshape(B, T, n_head, C // n_head).swapaxes(1, 2) for a in (dout, out))
    probabilities = np.exp(_causal_scores(q, k) - lse[..., None])  # [B,H,T,T]
    dv = (probabilities * factor).swapaxes(-1, -2) @ do  # [B,H,T,D]
    dprobabilities = (do @ v.swapaxes(-1, -2)) * factor  # [B,H,T,T]
    # Softmax's backward needs sum_j P_ij dP_ij, which is do . o, dropout included.
    dscores = probabilities * (dprobabilities - (do * o).sum(-1, keepdims=True))
    dscores /= sqrt(C // n_head)
    dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q  # [B,H,T,D]
    return np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * C)


def embedding_forward(tokens: Array, wte: Array, wpe: Array) -> Array:
    """tokens [B,T] -> wte[token] + wpe[t] [B,T,C], before dropout."""
    return wte[tokens] + wpe[: tokens.shape[1]]


def embedding_backward(dx: Array, tokens: Array, wte: Array, wpe: Array) -> tuple[Array, Array]:
    """dx [B,T,C] (through the dropout already) -> dwte [V,C], dwpe [ctx,C]; 0 where no token is."""
    T, C = dx.shape[1:]
    dwte, dwpe = np.zeros_like(wte), np.zeros_like(wpe)
    flat = tokens.reshape(-1)
    order = np.argsort(flat, kind="stable")  # rows of one token side by side
    present, first = np.unique(flat[order], return_index=True)
    dwte[present] = np.add.reduceat(dx.reshape(-1, C)[order], first)
    dwpe[:T] = dx.sum(0)
    return dwte, dwpe


def cross_entropy_forward(logits: Array, targets: Array) -> Array:
    """logits [B,T,V], targets [B,T] -> losses [B,T]: -log softmax(logits)[target]."""
    top = logits.real.max(-1)
    lse = top + np.log(np.exp(logits - top[..., None]).sum(-1))
    losses: Array = lse - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return losses


def cross_entropy_backward(logits: Array, targets: Array, scale: float) -> Array:
    """dlogits [B,T,V] = (softmax(logits) - onehot(target)) * scale."""
    dlogits: Array = np.exp(logits - logits.real.max(-1, keepdims=True))
    dlogits /= dlogits.sum(-1, keepdims=True)
    rows, columns = np.indices(targets.shape)
    dlogits[rows, columns, targets] -= 1
    dlogits *= scale
    return dlogits
