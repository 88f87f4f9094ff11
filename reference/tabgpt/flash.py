"""FlashAttention-2 (Dao 2023) as a program to read: causal attention by tiles, nothing [T,T].

ops.attention_forward says what attention is; this says in which order shaders/flash_*.wgsl
compute it, one function a kernel. T queries are cut into tiles of `rows`, T keys into tiles of
`keys`; q_i, k_j, v_j, do_i are such tiles, [B,H,rows or keys,D]. Of P [T,T] only one tile exists
at a time, and a tile whose keys are all in the future of its queries is never made.

    S = q_i k_j^T / sqrt(D)    P = exp(S - lse)    out = (P o Z) v    Z: dropout's factor

The forward pass keeps lse [B,H,T] alone; the backward pass makes P again from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np

from .ops import Array, Dropout

TILE = 64
"""Rows and keys of a tile in the shaders."""
MASKED = -3e38
"""A score in the future: as the shaders, which have no infinity. No row is all masked: key 0 is
in every query's past, and its tile comes first."""

Factor = Callable[[slice, slice], Array | float]
"""Z of one tile: (queries, keys) -> [B,H,rows,keys], or 1."""


def no_dropout(queries: slice, keys: slice) -> float:
    return 1.0


def dropout_tiles(dropout: Dropout, batch: int, heads: int, length: int,
                  layer: int, site: int) -> Factor:  # fmt: skip
    """Element ((b H + h) T + query) T + key of the stream, tile by tile: nothing is stored."""
    head = np.arange(batch * heads, dtype=np.uint64).reshape(batch, heads, 1, 1)

    def factor(queries: slice, keys: slice) -> Array | float:
        row = head * np.uint64(length) + _numbers(queries)[:, None]  # [B,H,rows,1]
        return dropout.factor_at(row * np.uint64(length) + _numbers(keys), layer, site)

    return factor


def flash_forward(qkv: Array, n_head: int, factor: Factor = no_dropout,
                  rows: int = TILE, keys: int = TILE) -> tuple[Array, Array]:  # fmt: skip
    """qkv [B,T,3C] -> out [B,T,C], lse [B,H,T] (algorithm 1).

    Of each query the largest score so far m, the sum of exponentials l and the weighted
    sum of values o are kept; all are relative to m, so a larger m rescales the other two:

        m' = max(m, max_j S)    l = e^(m - m') l + sum_j e^(S - m')
                                o = e^(m - m') o + sum_j e^(S - m') Z v
    """
    q, k, v = _heads(qkv, n_head)
    out, lse = np.zeros_like(q), np.zeros(q.shape[:-1], q.dtype)
    for i in _tiles(q.shape[2], rows):
        m = np.full((*q.shape[:2], i.stop - i.start, 1), MASKED, q.dtype)
        total, o = np.zeros_like(m), np.zeros_like(q[:, :, i])
        for j in _tiles(i.stop, keys):  # later tiles are the future of all of these queries
            scores = _scores(q, k, i, j)
            largest = np.maximum(m, scores.max(-1, keepdims=True))
            weights = np.exp(scores - largest)
            rescale = np.exp(m - largest)
            total = rescale * total + weights.sum(-1, keepdims=True)
            o = rescale * o + (weights * factor(i, j)) @ v[:, :, j]
            m = largest
        out[:, :, i] = o / total
        lse[:, :, i] = (m + np.log(total))[..., 0]
    return _channels(out), lse


def attention_d(dout: Array, out: Array, n_head: int) -> Array:
    """row_dot [B,H,T] = sum over D of do o, which is sum_j P_ij dP_ij (algorithm 2, line 4)."""
    B, T, C = dout.shape
    row_dot: Array = (dout * out).reshape(B, T, n_head, C // n_head).sum(-1).swapaxes(1, 2)
    return row_dot


def flash_dq(dout: Array, lse: Array, row_dot: Array, qkv: Array, factor: Factor = no_dropout,
             rows: int = TILE, keys: int = TILE) -> Array:  # fmt: skip
    """-> dq [B,T,C], a tile of queries at a time: dq_i = sum over j of dS k_j."""
    q, k, v = _heads(qkv, lse.shape[1])
    do = _split(dout, lse.shape[1])
    dq = np.zeros_like(q)
    for i in _tiles(q.shape[2], rows):
        for j in _tiles(i.stop, keys):
            _, dscores = _gradients(q, k, v, do, lse, row_dot, i, j, factor)
            dq[:, :, i] += dscores @ k[:, :, j]
    return _channels(dq)


def flash_dkv(dout: Array, lse: Array, row_dot: Array, qkv: Array, factor: Factor = no_dropout,
              rows: int = TILE, keys: int = TILE) -> tuple[Array, Array]:  # fmt: skip
    """-> dk, dv [B,T,C], a tile of keys at a time, so that no two write the same sum:

    dk_j = sum over i of dS^T q_i    dv_j = sum over i of (P o Z)^T do_i
    """
    q, k, v = _heads(qkv, lse.shape[1])
    do = _split(dout, lse.shape[1])
    dk, dv = np.zeros_like(k), np.zeros_like(v)
    T = q.shape[2]
    for j in _tiles(T, keys):
        for i in _tiles(T, rows):
            if i.stop <= j.start:
                continue  # all of these keys are in the future of all of these queries
            dropped, dscores = _gradients(q, k, v, do, lse, row_dot, i, j, factor)
            dk[:, :, j] += dscores.swapaxes(-1, -2) @ q[:, :, i]
            dv[:, :, j] += dropped.swapaxes(-1, -2) @ do[:, :, i]
    return _channels(dk), _channels(dv)


def flash_backward(dout: Array, out: Array, lse: Array, qkv: Array, n_head: int,
                   factor: Factor = no_dropout,
                   rows: int = TILE, keys: int = TILE) -> Array:  # fmt: skip
    """dout [B,T,C] -> dqkv [B,T,3C] (algorithm 2, as three passes)."""
    row_dot = attention_d(dout, out, n_head)
    dq = flash_dq(dout, lse, row_dot, qkv, factor, rows, keys)
    return np.concatenate([dq, *flash_dkv(dout, lse, row_dot, qkv, factor, rows, keys)], -1)


def _gradients(q: Array, k: Array, v: Array, do: Array, lse: Array, row_dot: Array,
               i: slice, j: slice, factor: Factor) -> tuple[Array, Array]:  # fmt: skip
    """P o Z and dS of one tile [B,H,rows,keys]: dP = (do_i v_j^T) o Z, dS = P (dP - D)/sqrt(D)."""
    p = np.exp(_scores(q, k, i, j) - lse[:, :, i, None])
    z = factor(i, j)
    dp = (do[:, :, i] @ v[:, :, j].swapaxes(-1, -2)) * z
    return p * z, p * (dp - row_dot[:, :, i, None]) / sqrt(q.shape[-1])


def _scores(q: Array, k: Array, i: slice, j: slice) -> Array:
    """S of one tile [B,H,rows,keys]; MASKED where the key is in the query's future."""
    scores = q[:, :, i] @ k[:, :, j].swapaxes(-1, -2) / sqrt(q.shape[-1])
    return np.where(_numbers(j) <= _numbers(i)[:, None], scores, MASKED)


def _tiles(length: int, size: int) -> Iterator[slice]:
    """Of 0 to length; the last one may be shorter."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _numbers(tile: slice) -> Array:
    return np.arange(tile.start, tile.stop, dtype=np.uint64)


def _split(x: Array, n_head: int) -> Array:
    """[B,T,C] -> [B,H,T,D]."""
    B, T, C = x.shape
    return x.reshape(B, T, n_head, C // n_head).swapaxes(1, 2)


def _heads(qkv: Array, n_head: int) -> list[Array]:
    """[B,T,3C] -> q, k, v, each [B,H,T,D]."""
    return [_split(part, n_head) for part in np.split(qkv, 3, -1)]


def _channels(x: Array) -> Array:
    """[B,H,T,D] -> [B,T,C]."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)
