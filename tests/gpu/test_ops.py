"""One operation by itself, as the kernel sweep runs it: plan, inputs, and the core's judgement."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bounds import Array, Arrays
from case import widen
from tabgpt import _core, ops

LIMITS = (128 << 20, 256 << 20)
MATMULS = [f"matmul {trans} 70 33 66" for trans in ("NN", "NT", "TN")]
ATTENTION = [f"attention {way} 2 3 70 8" for way in ("forward", "backward")]


def opened(text: str) -> tuple[_core.GpuOp, dict]:
    op = _core.GpuOp(text)
    return op, json.loads(op.plan("", *LIMITS))


def inputs(op: _core.GpuOp, plan: dict) -> Arrays:
    values = {name: np.empty(plan["tensors"][name]["shape"], np.float32) for name in plan["inputs"]}
    for name, array in values.items():
        op.input(name, array)
    return values


def answers(text: str, x: Arrays) -> Arrays:
    """The oracle's, float64."""
    what, way, *sizes = text.split()
    x = {name: widen(array) for name, array in x.items()}
    if what == "matmul":
        a, b = x["A"].T if way == "TN" else x["A"], x["B"].T if way == "NT" else x["B"]
        return {"out": a @ b}
    heads, qkv = int(sizes[1]), x["h.0.attn.qkv"]
    out, lse = ops.attention_forward(qkv, heads, 1.0)
    if way == "forward":
        return {"h.0.attn.out": out, "h.0.attn.lse": lse}
    dout = x["grad:h.0.attn.out"]
    return {"grad:h.0.attn.qkv": ops.attention_backward(dout, out, lse, qkv, heads, 1.0)}


@pytest.mark.parametrize("text", MATMULS + ATTENTION)
def test_the_oracles_answers_are_right(text: str) -> None:
    op, plan = opened(text)
    got = answers(text, inputs(op, plan))
    assert sorted(got) == sorted(plan["results"])
    for name, value in got.items():
        assert list(value.shape) == plan["tensors"][name]["shape"]
        assert op.check("", name, value.astype(np.float32)) < 0.5


def mistakes(value: Array) -> dict[str, Array]:
    """What kernels get wrong, made of the right result."""
    edge, row, nan = value.copy(), value.copy(), value.copy()
    edge.flat[-1] *= 1.01
    row[63 if row.ndim == 2 else (-1, 63)] = 0
    nan.flat[nan.size // 2] = np.nan
    return {"not written": 0 * value, "last element": edge, "a tile's last row": row, "nan": nan}


@pytest.mark.parametrize("text", MATMULS + ATTENTION[:1] + ["attention backward 1 1 70 8"])
def test_a_wrong_result_is_seen(text: str) -> None:
    op, plan = opened(text)
    name = plan["results"][0]
    right = answers(text, inputs(op, plan))[name].astype(np.float32)
    for what, wrong in mistakes(right).items():
        share = op.check("", name, wrong)
        assert share > 1, what
        assert np.isinf(share) == (what == "nan")


def test_operands_are_told_apart() -> None:
    """NN, NT and TN of a square have operands of one shape: none's result passes for another's."""
    results = {}
    for trans in ("NN", "NT", "TN"):
        op, plan = opened(f"matmul {trans} 65 65 65")
        results[trans] = op, answers(f"matmul {trans}", inputs(op, plan))["out"]
    for trans, (op, _) in results.items():
        right = {t for t, (_, out) in results.items() if op.check("", "out", out.astype("f")) <= 1}
        assert right == {trans}


def test_operations_and_bytes_are_counted() -> None:
    plan = opened("matmul NT 70 33 66")[1]
    assert plan["flops"] == 2 * 70 * 33 * 66
    assert plan["bytes"] == 4 * (70 * 33 + 33 * 66 + 70 * 66)
    forward, backward = (opened(text)[1] for text in ATTENTION)
    assert forward["flops"] == 2 * 3 * (70 * 71 // 2) * 4 * 8
    assert backward["flops"] == 2.5 * forward["flops"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no operation"),
        ("matmul NN 4 4", "is no operation"),
        ("matmul TT 4 4 4", "is no operation"),
        ("matmul NN 4 x 4", "sizes are from 1 to 16384"),
        ("attention forward 1 1 8 129", "a head's dimension to 128"),
        ("attention sideways 1 1 8 8", "is no operation"),
        ("attention forward 16384 16384 16384 128", "choose smaller sizes"),
    ],
)
def test_refusals(text: str, says: str) -> None:
    with pytest.raises(_core.TabgptError, match=says):
        _core.GpuOp(text)


def test_a_plan_keeps_the_devices_limits() -> None:
    op = _core.GpuOp("matmul NN 512 512 512")
    with pytest.raises(_core.TabgptError, match="maxStorageBufferBindingSize is 65536"):
        op.plan("", 65536, 1 << 28)
    with pytest.raises(_core.TabgptError, match="no tensor 'C' of that kind"):
        op.check("", "C", np.zeros(4, np.float32))
