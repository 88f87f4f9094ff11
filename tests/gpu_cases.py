"""The cases of tests/cases.py that the GPU has, and sizes around its tiles, rows and blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bounds import Array
from case import Case, normal
from case_attention import AttentionBackward, AttentionDecode, AttentionForward
from case_dense import BiasBackward, GeluBackward, LayernormBackward, LayernormForward, Matmul
from case_ends import (
    AdamW,
    CrossEntropyBackward,
    CrossEntropyForward,
    EmbeddingBackward,
    EmbeddingForward,
    Normals,
    SumOfSquares,
)
from cases import CASES

_TILE_EDGES = [
    *[(1, 1, 65), (15, 17, 16), (16, 15, 17), (17, 16, 15), (31, 33, 32), (33, 31, 63)],
    *[(63, 64, 65), (65, 63, 33), (1, 65, 31), (65, 1, 17), (64, 128, 1), (17, 33, 4096)],
]

# Rows of whole vectors of 4 (matmul_vec4), and K long enough to be split.
_VECTOR_EDGES = {
    "NN": [(1, 4, 4), (15, 68, 20), (63, 64, 12), (65, 132, 140)],
    "NT": [(1, 1, 4), (17, 15, 20), (63, 65, 12), (65, 129, 140)],
    "TN": [(4, 4, 1), (68, 20, 17), (64, 60, 15), (132, 68, 141)],
}


def _rows(kind: str, rng: np.random.Generator, *shape: int, scale: float) -> Array:
    """ "large": far beyond what exp can hold; "equal": one row again and again."""
    x = normal(rng, *shape, scale=scale * (20 if kind == "large" else 1))
    if kind == "equal":
        x[...] = x.reshape(-1, shape[-1])[0]
    return x


@dataclass(frozen=True)
class UnusualAttentionForward(AttentionForward):
    rows: str = "large"

    def qkv(self) -> Array:
        width = 3 * self.H * self.D
        return _rows(self.rows, self.random(), self.B, self.T, width, scale=1.5)


@dataclass(frozen=True)
class UnusualAttentionBackward(AttentionBackward):
    rows: str = "large"

    def qkv(self) -> Array:
        width = 3 * self.H * self.D
        return _rows(self.rows, self.random(), self.B, self.T, width, scale=1.5)


@dataclass(frozen=True)
class UnusualCrossEntropyForward(CrossEntropyForward):
    rows: str = "large"

    def logits(self, rng: np.random.Generator) -> Array:
        return _rows(self.rows, rng, self.R, self.V, scale=4)


@dataclass(frozen=True)
class UnusualCrossEntropyBackward(CrossEntropyBackward):
    rows: str = "large"

    def logits(self, rng: np.random.Generator) -> Array:
        return _rows(self.rows, rng, self.R, self.V, scale=4)


GPU_CASES: list[Case] = [
    *[case for case in CASES if not isinstance(case, Normals)],  # the CPU draws the weights
    *[Matmul(trans, *size) for trans in ("NN", "NT", "TN") for size in _TILE_EDGES],
    *[
        Matmul("NN", *size, epilogue)
        for size in ((17, 15, 33), (63, 65, 31))
        for epilogue in ("bias+gelu_tanh", "bias+dropout+residual", "accumulate")
    ],
    *[Matmul("TN", *size, "accumulate") for size in ((15, 17, 33), (65, 64, 2049), (68, 64, 2049))],
    *[Matmul(trans, *size) for trans, sizes in _VECTOR_EDGES.items() for size in sizes],
    *[
        Matmul("NN", 65, 68, 132, epilogue)
        for epilogue in (
            "bias",
            "bias+gelu_tanh",
            "bias+gelu_erf",
            "bias+residual",
            "bias+dropout+residual",
            "accumulate",
        )
    ],
    Matmul("NT", 33, 65, 132, "accumulate"),
    *[BiasBackward(*size) for size in ((17, 63), (1025, 65))],
    *[
        kind(R, C)
        for kind in (LayernormForward, LayernormBackward)
        for R, C in ((15, 63), (17, 64), (33, 65), (3, 1023))
    ],
    *[GeluBackward(n, "gelu_tanh") for n in (255, 257)],
    *[
        kind(1, T, 2, D, p)
        for kind in (AttentionForward, AttentionBackward)
        for T, D in (
            *[(17, 1), (63, 8), (64, 24), (65, 32), (33, 48), (66, 64), (31, 80), (70, 128)],
            *[(15, 33), (16, 17), (32, 65), (127, 97), (128, 40), (129, 128)],
        )
        for p in (0.0, 0.1)
    ],
    *[kind(1, T, 1, 8) for T in (512, 1024) for kind in (AttentionForward, AttentionBackward)],
    *[
        kind(1, 67, 2, 24, p, rows)
        for kind in (UnusualAttentionForward, UnusualAttentionBackward)
        for p in (0.0, 0.1)
        for rows in ("large", "equal")
    ],
    *[AttentionDecode(*s) for s in ((63, 64, 2, 80), (64, 128, 1, 65), (65, 65, 3, 1))],
    *[EmbeddingForward(*s) for s in ((1, 17, 63, 31), (3, 65, 33, 15))],
    EmbeddingForward(1, 1, 33, 65, 31),
    *[EmbeddingBackward(*s) for s in ((3, 17, 15, 2), (2, 65, 65, 33))],
    *[
        kind(R, V)
        for kind in (CrossEntropyForward, CrossEntropyBackward)
        for R, V in ((17, 63), (15, 64), (33, 65), (1, 1025))
    ],
    *[
        kind(9, 131, rows)
        for kind in (UnusualCrossEntropyForward, UnusualCrossEntropyBackward)
        for rows in ("large", "equal")
    ],
    *[SumOfSquares(n) for n in (4095, 4096, 4097)],
    *[AdamW(n, 9, 0.95, 0.1) for n in (255, 256, 257)],
]
