"""How each case of tests/cases.py is said in dispatches of shaders/'s kernels.

`calls(case)` gives one `Call` for each way that there is: every product kernel that
takes the size, gradients added in place or from another buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import singledispatch
from math import sqrt
from typing import Any

import numpy as np
from bounds import Array, Arrays
from case import GELU, Case, widen
from case_attention import AttentionBackward, AttentionDecode, AttentionForward
from case_dense import (
    BiasBackward,
    DropoutApply,
    GeluBackward,
    GeluForward,
    LayernormBackward,
    LayernormForward,
    Matmul,
)
from case_ends import (
    AdamW,
    CrossEntropyBackward,
    CrossEntropyForward,
    EmbeddingBackward,
    EmbeddingForward,
    Philox,
    SumOfSquares,
)
from kernel_products import LONG, dropout_words, products
from kernel_runner import Dispatch, elements, folded, unwritten
from tabgpt.config import TrainConfig
from tabgpt.optim import learning_rate

ROW_CHUNKS = 64  # sums over rows run over at most this many chunks, of at least 16 rows
SQUARES_CHUNK = 4096  # square_sums.wgsl
STATS = 5  # floats of stats.wgsl
LOSS_SUM, NOT_FINITE, NORM, CLIP, FINITE = range(5)
UNUSED = {"unused": np.zeros(1, np.float32), "unused out": np.zeros(1, np.float32)}
PHILOX = """
//! include step.wgsl
//! include philox.wgsl
struct Params { c0: u32, c1: u32, c2: u32, c3: u32, seed: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1)
fn main() {
  let words = philox(vec4<u32>(p.c0, p.c1, p.c2, p.c3), p.seed);
  for (var i = 0u; i < 4u; i = i + 1u) {
    out[i] = words[i];
  }
}
"""


@dataclass(frozen=True)
class Call:
    """Dispatches over tensors: inputs by name, outputs unwritten or what the kernel adds to."""

    tensors: Arrays
    dispatches: list[Dispatch]
    outputs: dict[str, str]
    """The oracle's name -> the tensor."""
    variant: str = ""
    finish: dict[str, Any] = field(default_factory=dict)
    """Output -> function of the tensor, where the kernel's result is another quantity."""
    lost: Arrays = field(default_factory=dict)
    """Output -> what this way may be off beyond the case's bound, being less exact."""


def rows_per_chunk(rows: int) -> int:
    return max(16, -(-rows // ROW_CHUNKS))


@singledispatch
def calls(case: Case) -> Iterator[Call]:
    """None for an operation that no kernel has (the CPU draws the normals)."""
    yield from ()


@calls.register
def _(case: Matmul) -> Iterator[Call]:
    for product in products(case):
        has_gelu = case.gelu != "none"
        tensors = {**UNUSED, **case.inputs()}
        for name in ("out", "pre_gelu"):
            tensors.setdefault(name, unwritten(case.M, case.N))
        tensors |= product.scratch(case)
        lost = product.lost(case, {name: widen(x) for name, x in case.inputs().items()})
        outputs = {"out": "out", **({"pre_gelu": "pre_gelu"} if has_gelu else {})}
        yield Call(tensors, product.dispatches(case), outputs, product.name, lost=lost)
        if has_gelu:
            alone = product.dispatches(case, {"KEEP_PRE_GELU": 0})
            yield Call(tensors, alone, {"out": "out"}, f"{product.name}, forgetting", lost=lost)


def _by_one(x: Array) -> tuple[Matmul, Arrays]:
    """1 times x, which is exact, as a product: for what the epilogue makes of x.

    Small ones have a K that some kernels sum in parts.
    """
    K = LONG if x.size < 2048 else 4
    A, B = np.zeros((1, K), np.float32), np.zeros((x.size, K), np.float32)
    A[0, -1], B[:, -1] = 1, x
    return Matmul("NT", 1, x.size, K), {**UNUSED, "A": A, "B": B, "out": unwritten(1, x.size)}


@calls.register
def _(case: DropoutApply) -> Iterator[Call]:
    product_case, tensors = _by_one(case.inputs()["x"])
    for product in products(product_case):
        made = tensors | product.scratch(product_case)
        runs = product.dispatches(product_case, {"DROPOUT": 1}, p=case.p)
        yield Call(made, runs, {"y": "out"}, product.name, {"y": np.ravel})


def _add_partials(n: int, rows: int, stride: int, first: int, out: str) -> Dispatch:
    params = {"n": n, "chunks": -(-rows // rows_per_chunk(rows)), "stride": stride, "first": first}
    params |= {"width": n, "apart": n}
    return Dispatch("add_partials", elements(n, 64), params, {"partials": "partials", "out": out})


def _over_rows(kernel: str, rows: int, width: int, tensors: dict[str, str]) -> Dispatch:
    size = rows_per_chunk(rows)
    params = {"rows": rows, "width": width, "rows_per_chunk": size}
    grid = (-(-width // 64), -(-rows // size), 1)
    return Dispatch(kernel, grid, params, {**tensors, "partials": "partials"})


@calls.register
def _(case: BiasBackward) -> Iterator[Call]:
    tensors = {**case.inputs(), "partials": unwritten(ROW_CHUNKS * case.N)}
    sums = _over_rows("column_sums", case.M, case.N, {"x": "dy"})
    yield Call(tensors, [sums, _add_partials(case.N, case.M, case.N, 0, "db")], {"db": "db"})


@calls.register
def _(case: LayernormForward) -> Iterator[Call]:
    R, C = case.R, case.C
    tensors = case.inputs() | {"out": unwritten(R, C), "mean": unwritten(R), "rstd": unwritten(R)}
    same = {name: name for name in ("x", "weight", "bias", "out", "mean", "rstd")}
    run = Dispatch("layernorm_forward", folded(R), {"rows": R, "width": C}, same)
    yield Call(tensors, [run], {name: name for name in ("out", "mean", "rstd")})


@calls.register
def _(case: LayernormBackward) -> Iterator[Call]:
    R, C = case.R, case.C
    variants = {
        "accumulate": ({"ACCUMULATE": 1}, "unused", "dx"),
        "residual": ({"RESIDUAL": 1}, "dx", "fresh dx"),
        "alone": ({}, "unused", "fresh dx"),
    }
    step, masks = dropout_words(0.5)
    for (variant, (constants, residual, out)), dropout_on in itertools.product(
        variants.items(), (0, 1)
    ):
        tensors = {**UNUSED, **case.inputs(), "partials": unwritten(ROW_CHUNKS * 2 * C)}
        tensors["fresh dx"] = unwritten(R, C)
        inputs = {name: name for name in ("dout", "x", "weight", "mean", "rstd")}
        bound = {**inputs, "residual": residual, "dx": out, "masked": "unused out"}
        sizes = {"rows": R, "width": C}
        if dropout_on:
            tensors["masked"], bound["masked"] = unwritten(R, C), "masked"
        dx = Dispatch("layernorm_backward", folded(R), {**sizes, **masks, "scale": 2.0}, bound,
                      {**constants, "DROPOUT": dropout_on}, step)  # fmt: skip
        rows = {name: name for name in ("dout", "x", "mean", "rstd")}
        sums = _over_rows("layernorm_params", R, C, rows)
        ends = [_add_partials(C, R, 2 * C, 0, "dweight"), _add_partials(C, R, 2 * C, C, "dbias")]
        outputs = {"dx": out, "dweight": "dweight", "dbias": "dbias"}
        before = widen(tensors["dx"])
        finish = {} if constants else {"dx": lambda dx, before=before: widen(dx) + before}
        name = f"{variant}, masked" if dropout_on else variant
        yield Call(tensors, [dx, sums, *ends], outputs, name, finish)


@calls.register
def _(case: GeluForward) -> Iterator[Call]:
    """A product with 1, which is exact, and the epilogue."""
    product = Matmul("NN", 1, case.n, 1, case.activation)
    call = next(calls(product))
    one = np.ones(1, np.float32)
    yield Call(call.tensors | {"A": one, "B": case.inputs()["x"]}, call.dispatches, {"out": "out"},
               finish={"out": np.ravel})  # fmt: skip


@calls.register
def _(case: GeluBackward) -> Iterator[Call]:
    """Of a product: with what comes before the slope kept, as "probe" does, and without."""
    x = case.inputs()
    product_case, tensors = _by_one(x["dout"])
    tensors |= {"x": x["x"], "before": unwritten(1, case.n)}
    for product, keep in itertools.product(products(product_case), (0, 1)):
        bound = {"residual": "x", "pre_gelu": "before" if keep else "unused out"}
        constants = {"SLOPE": GELU[case.activation], "KEEP_PRE_GELU": keep}
        made = tensors | product.scratch(product_case)
        runs = product.dispatches(product_case, constants, bound)
        name = f"{product.name}, keeping" if keep else product.name
        yield Call(made, runs, {"dx": "out"}, name, {"dx": np.ravel})


ATTENTION = {"attention": 1, "flash": 64}
"""Kernels' first names -> the rows that a workgroup is for."""


def _attention_params(case: AttentionForward) -> tuple[dict[str, float], dict[str, Any]]:
    step, masks = dropout_words(case.p)
    params = {
        "batch": case.B,
        "length": case.T,
        "heads": case.H,
        "head_dim": case.D,
        "scale": 1 / sqrt(case.D),
        **masks,
        "keep_scale": 1 / (1 - case.p),
    }
    return params, {"step": step, "constants": {"DROPOUT": int(case.p > 0)}}


@calls.register
def _(case: AttentionForward) -> Iterator[Call]:
    B, T, H, D = case.B, case.T, case.H, case.D
    params, rest = _attention_params(case)
    tensors = case.inputs() | {"out": unwritten(B, T, H * D), "lse": unwritten(B, H, T)}
    same = {name: name for name in ("qkv", "out", "lse")}
    for name, rows in ATTENTION.items():
        grid = folded(B * H * -(-T // rows))
        run = Dispatch(f"{name}_forward", grid, params, same, **rest)
        yield Call(tensors, [run], {"out": "out", "lse": "lse"}, name)


@calls.register
def _(case: AttentionBackward) -> Iterator[Call]:
    B, T, H, D = case.B, case.T, case.H, case.D
    params, rest = _attention_params(case)
    tensors = case.inputs() | {"row_dot": unwritten(B, H, T), "dqkv": unwritten(B, T, 3 * H * D)}
    sizes = {name: params[name] for name in ("batch", "length", "heads", "head_dim")}
    same = {name: name for name in ("qkv", "dout", "lse", "row_dot", "dqkv")}
    dots = {name: name for name in ("dout", "out", "row_dot")}
    for name, rows in ATTENTION.items():
        dispatches = [Dispatch("attention_d", elements(B * H * T, 64), sizes, dots)]
        for kernel in (f"{name}_dq", f"{name}_dkv"):
            grid = folded(B * H * -(-T // rows))
            dispatches.append(Dispatch(kernel, grid, params, same, **rest))
        yield Call(tensors, dispatches, {"dqkv": "dqkv"}, name)


@calls.register
def _(case: AttentionDecode) -> Iterator[Call]:
    params = {"heads": case.H, "head_dim": case.D, "ctx": case.ctx, "scale": 1 / sqrt(case.D)}
    tensors = case.inputs() | {"out": unwritten(case.H * case.D)}
    bound = {"qkv": "q", "k_cache": "k_cache", "v_cache": "v_cache", "out": "out"}
    step = {"position": case.n - 1}
    run = Dispatch("attention_decode", (case.H, 1, 1), params, bound, step=step)
    yield Call(tensors, [run], {"out": "out"})


@calls.register
def _(case: EmbeddingForward) -> Iterator[Call]:
    rows = case.B * case.T
    step, masks = dropout_words(case.p)
    step["position"] = case.position0
    sizes = {"rows": rows, "length": case.T, "width": case.C}
    params = {**sizes, **masks, "scale": 1 / (1 - case.p)}
    tensors = case.inputs() | {"out": unwritten(case.B, case.T, case.C)}
    same = {name: name for name in ("tokens", "wte", "wpe", "out")}
    constants = {"DROPOUT": int(case.p > 0)}
    run = Dispatch("embedding_forward", elements(rows * case.C), params, same, constants, step)
    yield Call(tensors, [run], {"out": "out"})


def token_index(tokens: Array, vocab: int) -> Arrays:
    """The rows of each token, in order, and where each token's rows start."""
    flat = tokens.reshape(-1)
    counts = np.bincount(flat, minlength=vocab)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return {"starts": starts, "rows": np.argsort(flat, kind="stable").astype(np.uint32)}


@calls.register
def _(case: EmbeddingBackward) -> Iterator[Call]:
    tensors = case.inputs()
    tensors |= token_index(tensors["tokens"], case.V)
    wte = {name: name for name in ("starts", "rows", "dx", "dwte")}
    sizes = {"batch": case.B, "length": case.T, "width": case.C}
    dispatches = [
        Dispatch(
            "embedding_wte", elements(case.V * case.C), {"vocab": case.V, "width": case.C}, wte
        ),
        Dispatch("embedding_wpe", elements(case.T * case.C), sizes, {"dx": "dx", "dwpe": "dwpe"}),
    ]
    yield Call(tensors, dispatches, {"dwte": "dwte", "dwpe": "dwpe"})


def _cross_entropy(case: CrossEntropyForward, backward: int, scale: float) -> Dispatch:
    same = {name: name for name in ("targets", "logits", "losses")}
    constants, step = {"BACKWARD": backward}, {"loss_scale": scale}
    params = {"rows": case.R, "width": case.V}
    return Dispatch("cross_entropy", folded(case.R), params, same, constants, step)


@calls.register
def _(case: CrossEntropyForward) -> Iterator[Call]:
    for backward, variant in ((0, "alone"), (1, "with gradient")):
        tensors = case.inputs() | {"losses": unwritten(case.R)}
        yield Call(tensors, [_cross_entropy(case, backward, 1.0)], {"losses": "losses"}, variant)


@calls.register
def _(case: CrossEntropyBackward) -> Iterator[Call]:
    tensors = case.inputs() | {"losses": unwritten(case.R)}
    yield Call(tensors, [_cross_entropy(case, 1, case.scale)], {"dlogits": "logits"})


def norm_of(x: str, n: int, clip: float = 0.0) -> list[Dispatch]:
    """square_sums and norm over one tensor, into the tensors partials and stats."""
    chunks = -(-n // SQUARES_CHUNK)
    squares = {"x": x, "partials": "partials"}
    ends = {"partials": "partials", "stats": "stats"}
    return [
        Dispatch("square_sums", folded(chunks), {"n": n, "first": 0}, squares),
        Dispatch("norm", (1, 1, 1), {"n": chunks, "clip": clip}, ends),
    ]


@calls.register
def _(case: SumOfSquares) -> Iterator[Call]:
    tensors = case.inputs() | {
        "partials": unwritten(-(-case.n // SQUARES_CHUNK)),
        "stats": np.zeros(STATS, np.float32),
    }

    def squared(stats: Array) -> Array:
        return np.array([float(stats[NORM]) ** 2])

    yield Call(tensors, norm_of("x", case.n), {"out": "stats"}, finish={"out": squared})


def adamw_numbers(train: TrainConfig, step: int) -> tuple[dict[str, float], dict[str, float]]:
    """(params, step) of the kernel, from float64."""
    t, lr = step + 1, learning_rate(train, step)
    params = {
        "beta1": train.beta1,
        "rest1": 1 - train.beta1,
        "beta2": train.beta2,
        "rest2": 1 - train.beta2,
        "eps": train.eps,
    }
    return params, {
        "keep": 1 - lr * train.weight_decay,
        "rate": lr / (1 - train.beta1**t),
        "root2": 1 / sqrt(1 - train.beta2**t),
    }


@calls.register
def _(case: AdamW) -> Iterator[Call]:
    params, step = adamw_numbers(case.train, case.step)
    tensors = case.inputs()
    tensors["stats"] = np.array([0, 0, 0, case.grad_scale, 1], np.float32)
    bound = {"stats": "stats", "gradients": "g", "parameters": "p", "m": "m", "v": "v"}
    words = {"n": case.n, "decayed": case.n, **params}
    run = Dispatch("adamw", elements(case.n), words, bound, step=step)
    yield Call(tensors, [run], {name: name for name in ("p", "m", "v")})


@calls.register
def _(case: Philox) -> Iterator[Call]:
    words = {"c0": case.c0, "c1": case.c1, "c2": case.c2, "c3": case.c3, "seed": case.k0}
    tensors = {"out": np.zeros(4, np.uint32)}
    yield Call(tensors, [Dispatch("philox", (1, 1, 1), words, {"out": "out"}, code=PHILOX)],
               {"out": "out"})  # fmt: skip
