"""The product kernels of shaders/: which of them take a case, and in which dispatches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bounds import Array, Arrays
from case import GELU, SITE, dropout, dropout_numbers
from case_dense import Matmul
from kernel_runner import Dispatch, elements, unwritten

TRANS = ("NN", "NT", "TN")
LONG = 128  # of K, from which on a case also runs in parts
PARTS = 7  # some of them without any of K, where it is short
HALF, HALF_LEAST = 2.0**-10, 2.0**-14
"""Of a number in f16: an ulp (WGSL leaves the rounding's direction open), and what may become 0."""
ONLY_MEASURED = {(1, 1, 1), (65, 129, 67), (65, 132, 140), (65, 129, 140), (132, 68, 141)}
CANDIDATES = {*ONLY_MEASURED, (15, 17, 16), (15, 68, 20), (68, 20, 17), (65, 68, 132)}
"""(M, N, K) for the kernels that are not offered for training: compiling takes long."""
FOR_CANDIDATES = ("", "bias+gelu_tanh", "bias+dropout+residual")


def dropout_words(p: float) -> tuple[dict[str, float], dict[str, float]]:
    """(step, site and threshold) of tests/case.py's dropout stream."""
    d = dropout(p)
    _, _, c3, threshold, _ = dropout_numbers(p)
    step = {"seed": d.seed, "step": d.step, "micro": d.micro, "train": 1}
    return step, {"site": int(c3) & 0xFFFF, "threshold": threshold}


@dataclass(frozen=True)
class Product:
    kernel: str
    side: int
    """Of the square tile of a workgroup."""
    parts: int = 1
    """Of K, each with its own sums; matmul_split adds them up."""
    rounded: bool = False
    """Whether the operands become f16 on the way."""
    packed: bool = False
    """Whether pack_f16 puts them two to a word first."""

    @property
    def name(self) -> str:
        name = self.kernel.removeprefix("matmul_")
        return name if self.parts == 1 else f"{name} in {self.parts} parts"

    def scratch(self, case: Matmul) -> Arrays:
        """The tensors between its passes."""
        tensors = {}
        if self.parts > 1:
            tensors["partials"] = unwritten(self.parts, case.M, case.N)
        if self.packed:
            tensors["packed A"] = unwritten(-(-case.M * case.K // 2))
            tensors["packed B"] = unwritten(-(-case.K * case.N // 2))
        return tensors

    def dispatches(
        self,
        case: Matmul,
        constants: dict[str, int] | None = None,
        tensors: dict[str, str] | None = None,
        p: float = 0.0,
    ) -> list[Dispatch]:
        """The product and its epilogue; what is given stands for the case's own."""
        grid = (-(-case.N // self.side), -(-case.M // self.side), self.parts)
        p = p or case.p
        step, masks = dropout_words(p)
        sizes = {"M": case.M, "N": case.N, "K": case.K, **masks, "scale": 1 / (1 - p)}
        trans = {"TRANS": TRANS.index(case.trans)}
        bound, ends = _bound(case) | (tensors or {}), _constants(case) | (constants or {})
        factors = {"A": "A", "B": "B"}
        before = []
        if self.packed:
            before = [_pack("A", case.M * case.K), _pack("B", case.K * case.N)]
            factors = {"A": "packed A", "B": "packed B"}
        if self.parts == 1:
            whole = {**trans, **ends}
            return [*before, Dispatch(self.kernel, grid, sizes, {**factors, **bound}, whole, step)]
        bare = {"bias": "unused", "residual": "unused", "pre_gelu": "unused out"}
        sums = {**factors, **bare, "out": "partials"}
        return [
            Dispatch(self.kernel, grid, sizes, sums, {**trans, "SPLIT": 1}, step),
            Dispatch("matmul_split", elements(case.M * case.N), {**sizes, "K": self.parts},
                     {"partials": "partials", **bound}, ends, step),
        ]  # fmt: skip

    def lost(self, case: Matmul, x: Arrays) -> Arrays:
        """By output, what operands in f16 add to the bound: |da| |b| + |a| |db| + |da| |db|."""
        if not self.rounded:
            return {}
        a, b = (abs(factor) for factor in case.factors(x))
        da, db = (HALF * a + HALF_LEAST, HALF * b + HALF_LEAST)
        error: Array = da @ b + a @ db + da @ db
        factor = dropout(case.p).factor((case.M, case.N), *SITE)
        slope = 1 if case.gelu == "none" else 1.2
        return {"out": slope * error * factor, "pre_gelu": error}


def _pack(name: str, n: int) -> Dispatch:
    bound = {"x": name, "packed": f"packed {name}"}
    return Dispatch("pack_f16", elements(n, 512), {"n": n}, bound)


def _bound(case: Matmul) -> dict[str, str]:
    """Binding -> tensor."""
    return {
        "bias": "bias" if case.has("bias") else "unused",
        "residual": "residual" if case.has("residual") else "unused",
        "out": "out",
        "pre_gelu": "pre_gelu" if case.gelu != "none" else "unused out",
    }


def _constants(case: Matmul) -> dict[str, int]:
    return {
        "BIAS": int(case.has("bias")),
        "GELU": GELU[case.gelu],
        "KEEP_PRE_GELU": int(case.gelu != "none"),
        "DROPOUT": int(case.has("dropout")),
        "RESIDUAL": int(case.has("residual")),
        "ACCUMULATE": int(case.has("accumulate")),
    }


def in_vectors(case: Matmul) -> bool:
    """Whether both operands' rows are whole vectors of 4."""
    rows = {"NN": (case.K, case.N), "NT": (case.K, case.K), "TN": (case.M, case.N)}
    return all(n % 4 == 0 for n in rows[case.trans])


def products(case: Matmul) -> Iterator[Product]:
    """Every way to compute it."""
    yield Product("matmul_naive", 16)
    yield Product("matmul_tiled", 16)
    tiles = ["matmul_blocked4", *(["matmul_vec4"] if in_vectors(case) else [])]
    for kernel in tiles:
        yield Product(kernel, 64)
        if case.K >= LONG:
            yield Product(kernel, 64, PARTS)
    if (case.M, case.N, case.K) in CANDIDATES and case.epilogue in FOR_CANDIDATES:
        yield Product("matmul_subgroup", 64)
        if in_vectors(case):
            yield Product("matmul_f16", 64, rounded=True)
    if (case.M, case.N, case.K) in ONLY_MEASURED and not case.epilogue:
        yield Product("matmul_blocked8", 128)
        yield Product("matmul_tiled_f16", 16, rounded=True)
        yield Product("matmul_f16_packed", 16, rounded=True, packed=True)
