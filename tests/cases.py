"""One list of operation cases with three uses: parity test, gradient test, bench sweep.

A `Case` is one operation at one size. It makes its own float32 inputs, knows the
oracle's answer in float64, and owns its tolerance: an elementwise bound derived
from the operation's own sums (tests/bounds.py), never one flat number.

To add an operation:
1. write it in reference/tabgpt/ops.py, forward and backward, complex-safe;
2. write its kernel, and its line in `tabgpt_op`'s table (cpp/src/ops.cpp);
3. subclass `Case` here: `op` is the table's name, `inputs`, `expected`, `bound`,
   `call` (the table's parameters and tensors), and `primal` when the operation is
   a gradient (what it is the gradient of);
4. append sizes to `CASES`: 1, odd, prime, and as large as the models use.
Parity on every backend, the gradient check and the bench sweep then run it.
"""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import bounds
import numpy as np
from bounds import EPS, Array, Arrays
from tabgpt import ops, optim
from tabgpt.config import TrainConfig
from tabgpt.ops import Dropout

SITE = (3, ops.ATTENTION_RESIDUAL)  # layer and site of the dropout stream that cases use
GELU = {"none": 0, "gelu_tanh": 1, "gelu_erf": 2}


def dropout(p: float) -> Dropout:
    """The masks of one made-up micro-batch; a seed above 2^31, to catch a signed key."""
    return Dropout(p, seed=3000000019, step=41, micro=1)


@dataclass(frozen=True)
class Case:
    """One operation at one size; subclasses' fields are the sizes."""

    op: ClassVar[str]

    @property
    def name(self) -> str:
        fields = dataclasses.asdict(self).items()
        return self.op + "".join(f"-{key}{value}" for key, value in fields)

    def random(self) -> np.random.Generator:
        """Seeded by the name: a case's inputs do not change when another case is added."""
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    def inputs(self) -> Arrays:
        """float32 (ids uint32) by name; a name that `expected` has too is where the op adds to."""
        raise NotImplementedError

    def expected(self, x: Arrays) -> Arrays:
        """The oracle's outputs by name, from inputs in float64 (or complex)."""
        raise NotImplementedError

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        """Largest allowed |error| of each element of each output; y is `expected`."""
        raise NotImplementedError

    def call(self) -> tuple[list[float], list[str]]:
        """tabgpt_op's parameters, and its tensors by name ("" where one is absent)."""
        raise NotImplementedError

    variables: ClassVar[dict[str, str]] = {}
    """Output -> variable: the output is (or has added to it) primal's gradient in that variable."""

    def primal(self, x: Arrays) -> Any:
        """The scalar of x that `variables` differentiate; complex-safe."""
        raise NotImplementedError

    def flops(self) -> float:
        """Floating-point operations, for the bench's rates."""
        return 0.0

    def bytes(self) -> float:
        """Bytes that must move at least once: all inputs and outputs."""
        x = self.inputs()
        outputs = self.expected({k: widen(v) for k, v in x.items()})
        fresh = [value for name, value in outputs.items() if name not in x]
        return 4.0 * sum(a.size for a in [*x.values(), *fresh])


def widen(a: Array) -> Array:
    """float32 -> float64; ids stay."""
    return a.astype(np.float64) if a.dtype == np.float32 else a


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    return (scale * rng.standard_normal(shape)).astype(np.float32)


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
    variables = {"db": "bias"}

    def inputs(self) -> Arrays:
        rng = self.random()
        return {"db": normal(rng, self.N), "dy": normal(rng, self.M, self.N)}

    def expected(self, x: Arrays) -> Arrays:
        return {"db": x["db"] + x["dy"].sum(0)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"db": bounds.sum_of(x["dy"], 0) + EPS * abs(x["db"])}

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


@dataclass(frozen=True)
class LayernormBackward(Case):
    op = "layernorm_backward"
    R: int
    C: int
    variables = {"dx": "x", "dweight": "weight", "dbias": "bias"}

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


@dataclass(frozen=True)
class GeluBackward(Case):
    op = "gelu_backward"
    n: int
    activation: str
    variables = {"dx": "x"}

    def inputs(self) -> Arrays:
        rng = self.random()
        return {"dout": normal(rng, self.n), "x": wide_range(rng, self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"dx": ops.gelu_backward(x["dout"], x["x"], self.activation)}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dx": bounds.gelu_backward(x["dout"], x["x"])}

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


@dataclass(frozen=True)
class AttentionForward(Case):
    op = "attention_forward"
    B: int
    T: int
    H: int
    D: int
    p: float = 0.0

    def inputs(self) -> Arrays:
        return {"qkv": normal(self.random(), self.B, self.T, 3 * self.H * self.D, scale=1.5)}

    def factor(self) -> Array | float:
        return dropout(self.p).factor((self.B, self.H, self.T, self.T), *SITE)

    def expected(self, x: Arrays) -> Arrays:
        out, lse = ops.attention_forward(x["qkv"], self.H, self.factor())
        return {"out": out, "lse": lse}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return bounds.attention_forward(x["qkv"], self.H, self.factor(), y)

    def flops(self) -> float:
        return 2.0 * self.B * self.H * self.T * self.T * self.D  # half of two T x T x D products


@dataclass(frozen=True)
class AttentionBackward(AttentionForward):
    op = "attention_backward"
    variables = {"dqkv": "qkv"}

    def inputs(self) -> Arrays:
        qkv = super().inputs()["qkv"]
        out, lse = ops.attention_forward(widen(qkv), self.H, self.factor())
        dout = normal(self.random(), self.B, self.T, self.H * self.D)
        rounded = {"out": out.astype(np.float32), "lse": lse.astype(np.float32)}
        return {"dout": dout, **rounded, "qkv": qkv}

    def expected(self, x: Arrays) -> Arrays:
        given = (x[name] for name in ("dout", "out", "lse", "qkv"))
        return {"dqkv": ops.attention_backward(*given, self.H, self.factor())}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dqkv": bounds.attention_backward(x, self.H, self.factor())}

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


@dataclass(frozen=True)
class EmbeddingBackward(Case):
    op = "embedding_backward"
    B: int
    T: int
    C: int
    V: int
    variables = {"dwte": "wte", "dwpe": "wpe"}

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

    def primal(self, x: Arrays) -> Any:
        wte = x.get("wte", np.zeros((self.V, self.C)))
        wpe = x.get("wpe", np.zeros((self.T, self.C)))
        return (x["dx"] * ops.embedding_forward(x["tokens"], wte, wpe)).sum()


@dataclass(frozen=True)
class CrossEntropyForward(Case):
    op = "cross_entropy_forward"
    R: int
    V: int

    def inputs(self) -> Arrays:
        rng = self.random()
        return {
            "logits": normal(rng, self.R, self.V, scale=4),
            "targets": rng.integers(self.V, size=self.R, dtype=np.uint32),
        }

    def expected(self, x: Arrays) -> Arrays:
        return {"losses": ops.cross_entropy_forward(x["logits"][None], x["targets"][None])[0]}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"losses": bounds.cross_entropy_forward(x)}


@dataclass(frozen=True)
class CrossEntropyBackward(CrossEntropyForward):
    """In place: logits become dlogits."""

    op = "cross_entropy_backward"
    variables = {"dlogits": "logits"}

    @property
    def scale(self) -> float:
        return float(np.float32(1 / self.R))

    def expected(self, x: Arrays) -> Arrays:
        logits, targets = x["logits"][None], x["targets"][None]
        return {"dlogits": ops.cross_entropy_backward(logits, targets, self.scale)[0]}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"dlogits": bounds.cross_entropy_backward(x, self.scale)}

    def primal(self, x: Arrays) -> Any:
        losses = ops.cross_entropy_forward(x["logits"][None], x["targets"][None])
        return losses.sum() * self.scale


@dataclass(frozen=True)
class SumOfSquares(Case):
    op = "sum_of_squares"
    n: int

    def inputs(self) -> Arrays:
        return {"x": normal(self.random(), self.n)}

    def expected(self, x: Arrays) -> Arrays:
        return {"out": np.array([(x["x"] ** 2).sum()])}

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        return {"out": EPS * y["out"]}  # summed in float64: only the answer is rounded to float32


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


_MATMUL_SIZES = [
    *[(1, 1, 1), (1, 7, 5), (13, 1, 17), (3, 5, 1), (31, 37, 29), (64, 48, 32)],
    *[(65, 129, 67), (127, 131, 257), (192, 384, 128), (11, 13, 2048), (384, 384, 384)],
]

CASES: list[Case] = [
    *[Matmul(trans, *size) for trans in ("NN", "NT", "TN") for size in _MATMUL_SIZES],
    *[
        Matmul("NN", *size, epilogue)
        for size in ((1, 1, 1), (5, 3, 2), (37, 131, 67), (96, 128, 64))
        for epilogue in (
            "bias",
            "bias+gelu_tanh",
            "bias+gelu_erf",
            "bias+residual",
            "bias+dropout+residual",
            "accumulate",
        )
    ],
    *[Matmul("TN", *size, "accumulate") for size in ((1, 1, 1), (31, 37, 29), (65, 129, 131))],
    *[BiasBackward(M, N) for M, N in ((1, 1), (7, 3), (131, 37), (1024, 384))],
    *[
        kind(R, C)
        for kind in (LayernormForward, LayernormBackward)
        for R, C in ((1, 1), (3, 1), (1, 5), (7, 13), (67, 48), (131, 257), (768, 128))
    ],
    *[
        kind(n, activation)
        for kind in (GeluForward, GeluBackward)
        for n in (1, 7, 1009, 65536)
        for activation in ("gelu_tanh", "gelu_erf")
    ],
    *[DropoutApply(n, p) for n in (1, 3, 1009, 65537) for p in (0.0, 0.1, 0.5)],
    *[
        kind(*size, p)
        for kind in (AttentionForward, AttentionBackward)
        for size in (
            *[(1, 1, 1, 1), (2, 1, 3, 5), (1, 3, 1, 2), (2, 13, 3, 7), (1, 37, 2, 16)],
            *[(3, 64, 3, 32), (1, 131, 2, 64), (1, 65, 1, 128), (2, 128, 4, 32)],
        )
        for p in (0.0, 0.2)
    ],
    *[AttentionDecode(*s) for s in ((1, 1, 1, 1), (1, 8, 3, 5), (37, 64, 4, 32), (67, 67, 1, 128))],
    *[EmbeddingForward(*s) for s in ((1, 1, 1, 1), (2, 7, 5, 3), (3, 64, 48, 65), (1, 1, 33, 65, 13))],
    EmbeddingForward(2, 7, 5, 3, p=0.5),
    EmbeddingForward(4, 64, 128, 65, p=0.1),
    *[EmbeddingBackward(*s) for s in ((1, 1, 1, 1), (2, 7, 5, 3), (3, 64, 48, 65), (8, 64, 128, 256))],
    *[
        kind(R, V)
        for kind in (CrossEntropyForward, CrossEntropyBackward)
        for R, V in ((1, 1), (1, 2), (7, 3), (131, 65), (64, 257), (3, 5003))
    ],
    *[SumOfSquares(n) for n in (1, 7, 1009, 1000003)],
    *[
        AdamW(n, step, beta2, weight_decay)
        for n in (1, 7, 1009)
        for step, beta2, weight_decay in ((0, 0.95, 0.1), (9, 0.99, 0.0), (999, 0.999, 0.1))
    ],
    AdamW(65537, 9, 0.95, 0.1, grad_scale=0.37),
]
