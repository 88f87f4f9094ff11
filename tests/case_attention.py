"""Cases of attention: forward, backward, and one query against a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import bounds
import numpy as np
from bounds import Array, Arrays
from case import SITE, Case, dropout, dropout_numbers, normal, widen
from tabgpt import ops


@dataclass(frozen=True)
class AttentionForward(Case):
    op = "attention_forward"
    B: int
    T: int
    H: int
    D: int
    p: float = 0.0

    def qkv(self) -> Array:
        return normal(self.random(), self.B, self.T, 3 * self.H * self.D, scale=1.5)

    def inputs(self) -> Arrays:
        return {"qkv": self.qkv()}

    def factor(self) -> Array | float:
        return dropout(self.p).factor((self.B, self.H, self.T, self.T), *SITE)

    def expected(self, x: Arrays) -> Arrays:
        out, lse = ops.attention_forward(x["qkv"], self.H, self.factor())
        return {"out": out, "lse": lse}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.attention_forward(x["qkv"], self.H, self.factor(), y)

    def call(self) -> tuple[list[float], list[str]]:
        sizes = [self.B, self.T, self.H, self.D]
        return [*sizes, *dropout_numbers(self.p)], ["out", "lse", "qkv"]

    def flops(self) -> float:
        return 2.0 * self.B * self.H * self.T * self.T * self.D  # half of two T x T x D products


@dataclass(frozen=True)
class AttentionBackward(AttentionForward):
    op = "attention_backward"
    variables: ClassVar[dict[str, str]] = {"dqkv": "qkv"}

    def inputs(self) -> Arrays:
        qkv = self.qkv()
        out, lse = ops.attention_forward(widen(qkv), self.H, self.factor())
        dout = normal(self.random(), self.B, self.T, self.H * self.D)
        rounded = {"out": out.astype(np.float32), "lse": lse.astype(np.float32)}
        return {"dout": dout, **rounded, "qkv": qkv}

    def expected(self, x: Arrays) -> Arrays:
        given = (x[name] for name in ("dout", "out", "lse", "qkv"))
        return {"dqkv": ops.attention_backward(*given, self.H, self.factor())}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dqkv": bounds.attention_backward(x, self.H, self.factor())}

    def call(self) -> tuple[list[float], list[str]]:
        return super().call()[0], ["dqkv", "dout", "out", "lse", "qkv"]

    def primal(self, x: Arrays) -> Any:
        return (x["dout"] * ops.attention_forward(x["qkv"], self.H, self.factor())[0]).sum()

    def flops(self) -> float:
        return 2.5 * super().flops()  # five products instead of two


@dataclass(frozen=True)
class AttentionDecode(Case):
    """One new query against n cached positions; equals the last row of attention over n tokens."""

    op = "attention_decode"
    n: int
    ctx: int
    H: int
    D: int

    def inputs(self) -> Arrays:
        rng = self.random()
        cache = (self.H, self.ctx, self.D)
        return {
            "q": normal(rng, self.H * self.D, scale=1.5),
            "k_cache": normal(rng, *cache, scale=1.5),
            "v_cache": normal(rng, *cache),
        }

    def last_row(self, x: Arrays) -> Array:
        """qkv [1,n,3C] whose last query is q; earlier queries do not matter."""
        C = self.H * self.D
        qkv = np.zeros((1, self.n, 3, C))
        qkv[0, -1, 0] = x["q"]
        for part, name in ((1, "k_cache"), (2, "v_cache")):
            qkv[0, :, part] = x[name][:, : self.n].swapaxes(0, 1).reshape(self.n, C)
        return qkv.reshape(1, self.n, 3 * C)

    def expected(self, x: Arrays) -> Arrays:
        return {"out": ops.attention_forward(self.last_row(x), self.H, 1.0)[0][0, -1]}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        qkv = self.last_row(x)
        out, lse = ops.attention_forward(qkv, self.H, 1.0)
        whole = bounds.attention_forward(qkv, self.H, 1.0, {"out": out, "lse": lse})
        return {"out": whole["out"][0, -1]}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n, self.ctx, self.H, self.D], ["out", "q", "k_cache", "v_cache"]
