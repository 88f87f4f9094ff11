"""Cases of the products, LayerNorm, GELU and dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import bounds
import numpy as np
from bounds import EPS, Array, Arrays
from case import GELU, SITE, Case, dropout, dropout_numbers, normal, widen
from tabgpt import ops


@dataclass(frozen=True)
class Matmul(Case):
    """out = op(A) op(B), with the model's epilogues."""

    op = "matmul"
    trans: str
    M: int
    N: int
    K: int
    epilogue: str = ""  # "+" between: bias gelu_tanh gelu_erf dropout residual accumulate

    def has(self, word: str) -> bool:
        return word in self.epilogue.split("+")

    @property
    def gelu(self) -> str:
        return next((g for g in ("gelu_tanh", "gelu_erf") if self.has(g)), "none")

    @property
    def p(self) -> float:
        return 0.1 if self.has("dropout") else 0.0

    def inputs(self) -> Arrays:
        rng, (M, N, K) = self.random(), (self.M, self.N, self.K)
        x = {
            "A": normal(rng, *((K, M) if self.trans == "TN" else (M, K))),
            "B": normal(rng, *((N, K) if self.trans == "NT" else (K, N))),
        }
        if self.has("bias"):
            x["bias"] = normal(rng, N)
        if self.has("residual"):
            x["residual"] = normal(rng, M, N)
        if self.has("accumulate"):
            x["out"] = normal(rng, M, N)
        return x

    def factors(self, x: Arrays) -> tuple[Array, Array]:
        """op(A) [M,K] and op(B) [K,N]."""
        return (
            x["A"].T if self.trans == "TN" else x["A"],
            x["B"].T if self.trans == "NT" else x["B"],
        )

    def expected(self, x: Arrays) -> Arrays:
        a, b = self.factors(x)
        y: Arrays = {"out": ops.linear_forward(a, b, x.get("bias", np.zeros(self.N)))}
        if self.gelu != "none":
            y["pre_gelu"] = y["out"]
            y["out"] = ops.gelu_forward(y["out"], self.gelu)
        y["out"] = y["out"] * dropout(self.p).factor((self.M, self.N), *SITE)
        for start in ("residual", "out"):
            if start in x:
                y["out"] = y["out"] + x[start]
        return y

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        a, b = self.factors(x)
        factor = dropout(self.p).factor((self.M, self.N), *SITE)
        return bounds.matmul(a, b, x, y, self.gelu != "none", factor)

    def call(self) -> tuple[list[float], list[str]]:
        sizes = [float(["NN", "NT", "TN"].index(self.trans)), self.M, self.N, self.K]
        epilogue = [float(GELU[self.gelu]), float(self.has("accumulate"))]
        absent = {
            "bias": not self.has("bias"),
            "pre_gelu": self.gelu == "none",
            "residual": not self.has("residual"),
        }
        optional = ["" if gone else name for name, gone in absent.items()]
        return sizes + epilogue + dropout_numbers(self.p), ["A", "B", "out", *optional]

    @property
    def variables(self) -> dict[str, str]:  # type: ignore[override]
        """NT is a linear layer's dx = dy W^T, TN its dW = x^T dy."""
        variable = {"NT": "x", "TN": "weight"}.get(self.trans)
        return {"out": variable} if variable and self.epilogue in ("", "accumulate") else {}

    def primal(self, x: Arrays) -> Any:
        a, b = x["A"], x["B"]
        return (a * (x["x"] @ b)).sum() if self.trans == "NT" else (b * (a @ x["weight"])).sum()

    def flops(self) -> float:
        return 2.0 * self.M * self.N * self.K


@dataclass(frozen=True)
class BiasBackward(Case):
    """db += column sums of dy: the gradient of a linear layer's bias."""

    op = "bias_backward"
    M: int
    N: int
    variables: ClassVar[dict[str, str]] = {"db": "bias"}

    def inputs(self) -> Arrays:
        rng = self.random()
        return {"db": normal(rng, self.N), "dy": normal(rng, self.M, self.N)}

    def expected(self, x: Arrays) -> Arrays:
        return {"db": x["db"] + x["dy"].sum(0)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"db": bounds.sum_of(x["dy"], 0) + EPS * abs(x["db"])}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.M, self.N], ["db", "dy"]

    def primal(self, x: Arrays) -> Any:
        return (x["dy"] * (np.zeros((self.M, 1)) + x["bias"])).sum()


@dataclass(frozen=True)
class LayernormForward(Case):
    op = "layernorm_forward"
    R: int
    C: int

    def inputs(self) -> Arrays:
        rng = self.random()
        x = normal(rng, self.R, self.C) + normal(rng, self.R, 1)  # rows have a mean to subtract
        return {"x": x, "weight": normal(rng, self.C), "bias": normal(rng, self.C)}

    def expected(self, x: Arrays) -> Arrays:
        y = ops.layernorm_forward(x["x"][None], x["weight"], x["bias"])
        return {name: value[0] for name, value in zip(("out", "mean", "rstd"), y, strict=True)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.layernorm_forward(x, y)

    def call(self) -> tuple[list[float], list[str]]:
        return [self.R, self.C], ["out", "mean", "rstd", "x", "weight", "bias"]


@dataclass(frozen=True)
class LayernormBackward(Case):
    op = "layernorm_backward"
    R: int
    C: int
    variables: ClassVar[dict[str, str]] = {"dx": "x", "dweight": "weight", "dbias": "bias"}

    def inputs(self) -> Arrays:
        rng = self.random()
        x = normal(rng, self.R, self.C) + normal(rng, self.R, 1)
        bias = normal(rng, self.C)
        weight = normal(rng, self.C)
        _, mean, rstd = ops.layernorm_forward(widen(x)[None], widen(weight), widen(bias))
        return {
            "dx": normal(rng, self.R, self.C),
            "dweight": normal(rng, self.C),
            "dbias": normal(rng, self.C),
            "dout": normal(rng, self.R, self.C),
            "x": x,
            "weight": weight,
            "mean": mean[0].astype(np.float32),
            "rstd": rstd[0].astype(np.float32),
        }

    def expected(self, x: Arrays) -> Arrays:
        rows = (x[name][None] for name in ("dout", "x"))
        dx, dweight, dbias = ops.layernorm_backward(
            *rows, x["weight"], x["mean"][None], x["rstd"][None]
        )
        return {
            "dx": x["dx"] + dx[0],
            "dweight": x["dweight"] + dweight,
            "dbias": x["dbias"] + dbias,
        }

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.layernorm_backward(x, y)

    def call(self) -> tuple[list[float], list[str]]:
        gradients = ["dx", "dweight", "dbias"]
        return [self.R, self.C], [*gradients, "dout", "x", "weight", "mean", "rstd"]

    def primal(self, x: Arrays) -> Any:
        bias = x.get("bias", np.zeros(self.C))
        return (x["dout"] * ops.layernorm_forward(x["x"][None], x["weight"], bias)[0][0]).sum()


@dataclass(frozen=True)
class GeluForward(Case):
    op = "gelu_forward"
    n: int
    activation: str

    def inputs(self) -> Arrays:
        return {"x": wide_range(self.random(), self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"out": ops.gelu_forward(x["x"], self.activation)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": bounds.gelu(x["x"])}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n, GELU[self.activation]], ["out", "x"]


@dataclass(frozen=True)
class GeluBackward(Case):
    op = "gelu_backward"
    n: int
    activation: str
    variables: ClassVar[dict[str, str]] = {"dx": "x"}

    def inputs(self) -> Arrays:
        rng = self.random()
        return {"dout": normal(rng, self.n), "x": wide_range(rng, self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"dx": ops.gelu_backward(x["dout"], x["x"], self.activation)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dx": bounds.gelu_backward(x["dout"], x["x"])}

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n, GELU[self.activation]], ["dx", "dout", "x"]

    def primal(self, x: Arrays) -> Any:
        return (x["dout"] * ops.gelu_forward(x["x"], self.activation)).sum()


def wide_range(rng: np.random.Generator, n: int) -> Array:
    """Mostly of size 1, every seventh of size 10: tanh and exp saturate there."""
    x = normal(rng, n)
    x[::7] *= 10
    return x


@dataclass(frozen=True)
class DropoutApply(Case):
    op = "dropout_apply"
    n: int
    p: float

    def inputs(self) -> Arrays:
        return {"x": normal(self.random(), self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"y": x["x"] * dropout(self.p).factor((self.n,), *SITE)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"y": 2 * EPS * abs(y["y"])}  # 1/(1-p) is rounded, the product is; dropped is 0

    def call(self) -> tuple[list[float], list[str]]:
        return [self.n, *dropout_numbers(self.p)], ["y", "x"]
