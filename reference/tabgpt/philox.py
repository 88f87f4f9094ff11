"""Philox4x32-10 (Salmon et al. 2011, section 3.3): every random number, on every backend.

A counter names each number, so nothing is drawn "next": element i of a stream is
word i mod 4 of the block whose 128-bit counter is (c0, c1, c2, c3), where c0 and
c1 are the low and high half of i div 4, and (c2, c3) name the stream. The key is
(seed, 0).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# What a stream is for: bits 31-24 of c3.
INIT, BATCH, DROPOUT, SAMPLING, EVALUATION = 1, 2, 3, 4, 5

# The paper's multipliers (table 2) and key increments: the golden ratio and sqrt(3) - 1.
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox4x32(counter: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Ten rounds over counters [..., 4] -> random words [..., 4]."""
    c0, c1, c2, c3 = (counter[..., word].astype(np.uint64) for word in range(4))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2  # 64-bit products of 32-bit words
        c0, c1 = (p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def stream(use: int, micro: int = 0, layer: int = 0, site: int = 0) -> int:
    """c3: use (bits 31-24), accumulation micro-step (23-16), layer or tensor (15-4), site (3-0)."""
    return use << 24 | micro << 16 | layer << 4 | site


def blocks(seed: int, first: int, count: int, c2: int, c3: int) -> NDArray[np.uint32]:
    """`count` blocks of a stream from block `first` on -> [count, 4]."""
    index = np.arange(first, first + count, dtype=np.uint64)
    counter = np.empty((count, 4), dtype=np.uint32)
    counter[:, 0] = index & _LOW
    counter[:, 1] = index >> _32
    counter[:, 2] = c2
    counter[:, 3] = c3
    return philox4x32(counter, (seed, 0))


def bits(seed: int, n: int, c2: int, c3: int, first: int = 0) -> NDArray[np.uint32]:
    """Elements first .. first + n of a stream, 32 random bits each -> [n]."""
    block = first // 4
    words = blocks(seed, block, -(-(first + n) // 4) - block, c2, c3).reshape(-1)
    return words[first - 4 * block :][:n]


def bits_at(seed: int, elements: NDArray[np.uint64], c2: int, c3: int) -> NDArray[np.uint32]:
    """The bits of any elements of a stream [...] -> [...]; a block is made for each."""
    block = elements >> np.uint64(2)
    counter = np.empty((*elements.shape, 4), dtype=np.uint32)
    counter[..., 0], counter[..., 1] = block & _LOW, block >> _32
    counter[..., 2], counter[..., 3] = c2, c3
    word = (elements & np.uint64(3)).astype(np.intp)[..., None]
    return np.take_along_axis(philox4x32(counter, (seed, 0)), word, -1)[..., 0]


def to_uniform(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """24 bits each, exact in float32 too: [0, 1)."""
    return (words >> np.uint32(8)) * np.float64(2.0**-24)


def uniform(seed: int, n: int, c2: int, c3: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) -> [n]."""
    return to_uniform(bits(seed, n, c2, c3))


def normal(seed: int, n: int, c2: int, c3: int) -> NDArray[np.float64]:
    """Standard normal numbers -> [n]; words (0, 1) and (2, 3) of a block make a Box-Muller pair."""
    u = to_uniform(blocks(seed, 0, -(-n // 4), c2, c3)).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(1 - u[:, 0]))  # 1 - u is in (0, 1]: the log is finite
    angle = 2 * np.pi * u[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1)[:n]
