"""Cases of a step's two ends: embedding and loss, optimizer, random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import bounds
import numpy as np
from bounds import EPS, Array, Arrays
from case import SITE, Case, dropout, dropout_numbers, normal
from tabgpt import ops, optim, philox
from tabgpt.config import TrainConfig


@dataclass(frozen=True)
class EmbeddingForward(Case):
    op = "embedding_forward"
    B: int
    T: int
    C: int
    V: int
    position0: int = 0
    p: float = 0.0

    def inputs(self) -> Arrays:
        rng = self.random()
        return {
            "tokens": rng.integers(self.V, size=(self.B, self.T), dtype=np.uint32),
            "wte": normal(rng, self.V, self.C),
            "wpe": normal(rng, self.position0 + self.T, self.C),
        }

    def expected(self, x: Arrays) -> Arrays:
        out = ops.embedding_forward(x["tokens"], x["wte"], x["wpe"][self.position0 :])
        return {"out": out * dropout(self.p).factor(out.shape, *SITE)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": 2 * EPS * abs(y["out"])}  # one sum and one product, each rounded once

    def call(self) -> tuple[list[float], list[str]]:
        sizes = [self.B, self.T, self.C, self.position0]
        return [*sizes, *dropout_numbers(self.p)], ["out", "tokens", "wte", "wpe"]


@dataclass(frozen=True)
class EmbeddingBackward(Case):
    op = "embedding_backward"
    B: int
    T: int
    C: int
    V: int
    variables: ClassVar[dict[str, str]] = {"dwte": "wte", "dwpe": "wpe"}

    def inputs(self) -> Arrays:
        rng = self.random()
        return {
            "dwte": normal(rng, self.V, self.C),
            "dwpe": normal(rng, self.T, self.C),
            "dx": normal(rng, self.B, self.T, self.C),
            "tokens": rng.integers(self.V, size=(self.B, self.T), dtype=np.uint32),
        }

    def expected(self, x: Arrays) -> Arrays:
        zeros = np.zeros((self.V, self.C)), np.zeros((self.T, self.C))
        dwte, dwpe = ops.embedding_backward(x["dx"], x["tokens"], *zeros)
        return {"dwte": x["dwte"] + dwte, "dwpe": x["dwpe"] + dwpe}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.embedding_backward(x, self.V)

    def call(self) -> tuple[list[float], list[str]]:
        return [self.B, self.T, self.C], ["dwte", "dwpe", "dx", "tokens"]

    def primal(self, x: Arrays) -> Any:
        wte = x.get("wte", np.zeros((self.V, self.C)))
        wpe = x.get("wpe", np.zeros((self.T, self.C)))
        return (x["dx"] * ops.embedding_forward(x["tokens"], wte, wpe)).sum()


@dataclass(frozen=True)
class CrossEntropyForward(Case):
    op = "cross_entropy_forward"
    R: int
    V: int

    def logits(self, rng: np.random.Generator) -> Array:
        return normal(rng, self.R, self.V, scale=4)

    def inputs(self) -> Arrays:
        rng = self.random()
        return {
            "logits": self.logits(rng),
            "targets": rng.integers(self.V, size=self.R, dtype=np.uint32),
        }

    def expected(self, x: Arrays) -> Arrays:
        return {"losses": ops.cross_entropy_forward(x["logits"][None], x["targets"][None])[0]}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"losses": bounds.cross_entropy_forward(x)}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.R, self.V], ["losses", "logits", "targets"]


@dataclass(frozen=True)
class CrossEntropyBackward(CrossEntropyForward):
    op = "cross_entropy_backward"
    in_place: ClassVar[dict[str, str]] = {"logits": "dlogits"}
    variables: ClassVar[dict[str, str]] = {"dlogits": "logits"}

    @property
    def scale(self) -> float:
        return float(np.float32(1 / self.R))

    def expected(self, x: Arrays) -> Arrays:
        logits, targets = x["logits"][None], x["targets"][None]
        return {"dlogits": ops.cross_entropy_backward(logits, targets, self.scale)[0]}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dlogits": bounds.cross_entropy_backward(x, self.scale)}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.R, self.V, self.scale], ["logits", "targets"]

    def primal(self, x: Arrays) -> Any:
        losses = ops.cross_entropy_forward(x["logits"][None], x["targets"][None])
        return losses.sum() * self.scale


@dataclass(frozen=True)
class SumOfSquares(Case):
    op = "sum_of_squares"
    dtype = np.float64
    n: int

    def inputs(self) -> Arrays:
        return {"x": normal(self.random(), self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"out": np.array([(x["x"] ** 2).sum()])}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": self.n * 2.0**-52 * y["out"]}  # squares and sum in float64

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n], ["out", "x"]


@dataclass(frozen=True)
class AdamW(Case):
    op = "adamw"
    n: int
    step: int
    beta2: float
    weight_decay: float
    grad_scale: float = 1.0
    train_lr: ClassVar[float] = 1e-3

    @property
    def train(self) -> TrainConfig:
        return TrainConfig(
            lr=self.train_lr,
            schedule="constant",
            warmup_steps=0,
            beta1=0.9,
            beta2=self.beta2,
            eps=1e-8,
            weight_decay=self.weight_decay,
        )

    def inputs(self) -> Arrays:
        rng = self.random()
        return {
            "p": normal(rng, self.n),
            "m": normal(rng, self.n, scale=0.1) * (self.step > 0),
            "v": abs(normal(rng, self.n, scale=0.1)) * (self.step > 0),
            "g": normal(rng, self.n),
        }

    def expected(self, x: Arrays) -> Arrays:
        p, m, v = (x[name].copy() for name in ("p", "m", "v"))
        g = x["g"] * self.grad_scale
        optim.adamw(p, g, m, v, train=self.train, step=self.step, decayed=True)
        return {"p": p, "m": m, "v": v}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.adamw(self.train, self.step, self.grad_scale, x, y)

    def call(self) -> tuple[list[float], list[str]]:
        t, step = self.train, self.step + 1
        rates = [t.lr, t.beta1, t.beta2, t.eps, t.weight_decay]
        corrections = [1 - t.beta1**step, 1 - t.beta2**step]
        return [self.n, *rates, *corrections, self.grad_scale], ["p", "m", "v", "g"]


@dataclass(frozen=True)
class Philox(Case):
    """One block of four words; the published vectors are tests/oracle's affair."""

    op = "philox"
    dtype = np.uint32
    c0: int
    c1: int
    c2: int
    c3: int
    k0: int
    k1: int

    def inputs(self) -> Arrays:
        return {}

    def expected(self, x: Arrays) -> Arrays:
        counter = np.array([self.c0, self.c1, self.c2, self.c3], np.uint32)
        return {"out": philox.philox4x32(counter, (self.k0, self.k1))}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": np.zeros(4)}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.c0, self.c1, self.c2, self.c3, self.k0, self.k1], ["out"]


@dataclass(frozen=True)
class Normals(Case):
    """Box-Muller in float64, rounded once: 1 ulp, since log and cos differ between languages."""

    op = "normals"
    n: int
    seed: int

    def inputs(self) -> Arrays:
        return {}

    def expected(self, x: Arrays) -> Arrays:
        return {"out": 0.02 * philox.normal(self.seed, self.n, 0, philox.stream(philox.INIT))}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": np.spacing(abs(y["out"]).astype(np.float32))}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n, 0.02, self.seed, 0, philox.stream(philox.INIT)], ["out"]
