"""Bad input to the core: a sentence that names the value, and nothing changed, nothing aborted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from remote import NATIVE, WASM, CoreError, Remote
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, TrainConfig

MODEL = ModelConfig(vocab_size=5, ctx=4, n_layer=1, n_head=1, d_model=6)
TRAIN = TrainConfig(batch_size=2, steps=9)
CORPUS = np.random.default_rng(4).integers(5, size=100, dtype=np.uint32)
STATE = ("transformer.", "m:", "v:")


def poisoned_step(session: Any, value: float) -> None:
    """Two sound steps, then one with a value that is not finite in a weight."""
    session.init_weights()
    for _ in range(2):
        assert session.step().finite
    name = "transformer.h.0.mlp.c_fc.weight"
    weight = np.array(session.tensor(name))
    weight[3, 5] = value
    session.set(name, weight)
    before = {n: np.array(session.tensor(n)) for n in session.names() if n.startswith(STATE)}
    metrics = session.step()
    assert not metrics.finite
    assert not (math.isfinite(metrics.loss) and math.isfinite(metrics.grad_norm))
    assert session.step_number == 3
    for tensor, old in before.items():
        assert np.array(session.tensor(tensor)).tobytes() == old.tobytes(), f"{tensor} changed"
    session.close()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_step_that_is_not_finite_changes_nothing(core: Remote, value: float) -> None:
    poisoned_step(core.open(MODEL, TRAIN, CORPUS), value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nor_does_it_in_the_oracle(value: float) -> None:
    poisoned_step(NumpySession(MODEL, TRAIN, CORPUS, "train"), value)


FIELDS = {**MODEL.to_dict(), **TRAIN.to_dict()}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_head": 4}, "n_head 4|4"),
        ({"ctx": 0}, "ctx.*0"),
        ({"ctx": -1}, "ctx.*-1"),
        ({"ctx": 1.5}, "ctx.*1.5"),
        ({"ctx": 1e300}, "ctx.*1e"),
        ({"vocab_size": 0}, "vocab_size.*0"),
        ({"dropout": 1.0}, "dropout.*1"),
        ({"lr": 0.0}, "lr.*0"),
        ({"batch_size": 10**9}, "batch_size.*1"),
        ({"activation": "relu"}, "activation.*relu"),
        ({"activation": 3}, "activation"),
        ({"lr": "fast"}, "lr"),
        ({"n_heads": 2}, "n_heads"),
        ({"d_model": 516}, "516|head"),
    ],
    ids=str,
)
def test_config_is_refused_by_name(remotes, change: dict[str, Any], named: str) -> None:
    with pytest.raises(CoreError, match=named):
        config = {**FIELDS, **change}
        remotes(NATIVE[0])("memory", config=config, mode="train", threads=1, tokens=0)


def test_ids_outside_the_vocabulary(core: Remote) -> None:
    session = core.open(MODEL, TRAIN, CORPUS)
    bad = np.array([[0, 1, 5]], np.uint32)
    good = np.zeros((1, 3), np.uint32)
    for call in (
        lambda: session.loss(bad, good),
        lambda: session.loss_and_grads(good, bad),
        lambda: session.logits(bad),
        lambda: session.sample([5], 1),
        lambda: core.open(MODEL, TRAIN, np.full(100, 5)),
    ):
        with pytest.raises(CoreError, match="5"):
            call()
    session.close()


def test_shapes_and_modes(core: Remote) -> None:
    infer = core.open(MODEL, TRAIN, CORPUS, "infer")
    ids = np.zeros((1, 3), np.uint32)
    for call, named in (
        (infer.step, "infer"),
        (lambda: infer.loss_and_grads(ids, ids), "infer"),
        (lambda: infer.logits(np.zeros((1, 5), np.uint32)), "5.*4|4.*5"),
        (lambda: infer.logits(np.zeros((0, 3), np.uint32)), "0"),
        (lambda: infer.tensor("transformer.wte"), "transformer.wte"),
        (lambda: infer.evaluate("test"), "test"),
        (lambda: infer.sample([], 1), "empty"),
        (lambda: infer.sample([0], 1, temperature=-1.0), "temperature.*-1"),
        (lambda: infer.sample([0], 1, top_p=0.0), "top_p.*0"),
        (lambda: infer.sample([0], 1, top_p=1.5), "top_p.*1.5"),
        (lambda: core.open(MODEL, TRAIN, CORPUS[:5]), "5"),
        (lambda: core.open(MODEL, TRAIN, CORPUS, "trial"), "trial"),
    ):
        with pytest.raises(CoreError, match=named):
            call()
    with pytest.raises(CoreError):
        core.open(MODEL, TRAIN, threads=65)
    without = core.open(MODEL, TRAIN)
    with pytest.raises(CoreError, match=r"corpus|tokens"):
        without.step()
    infer.close()
    without.close()


def test_weights_that_are_not_finite_choose_no_token(core: Remote) -> None:
    session = core.open(MODEL, TRAIN, CORPUS, "infer")
    session.init_weights()
    session.set("transformer.ln_f.bias", np.full(6, np.nan))
    with pytest.raises(CoreError, match="nan"):
        session.sample([0], 1)
    session.close()


HUGE = {"ctx": 65536, "d_model": 65536, "d_mlp": 262144, "n_head": 512, "n_layer": 100}


def test_a_model_that_fits_nowhere_is_planned_but_not_opened(core: Remote) -> None:
    """The plan's figures are exact past 4 GiB, on 32-bit builds too."""
    huge = {**FIELDS, **HUGE}
    plan = core("memory", config=huge, mode="train", threads=1, tokens=0)
    assert plan["total"] > 2**44
    assert plan["parameters"] > 100 * 12 * 65536**2 * 4  # the layers' matrices alone
    assert plan["total"] == sum(size for role, size in plan.items() if role != "total")
    with pytest.raises(CoreError, match=r"GiB|bytes|memory"):
        core("open", config=huge, mode="train", threads=1)


# -- the C ABI itself, on the builds that export it --


class Raw:
    """C functions by name; NULL is None."""

    def __init__(self, core: Remote) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *values: int(float(self.call(name, *values)[0]))

    def call(self, name: str, *values: Any) -> tuple[str, str]:
        sent = [
            {"number": str(v)} if isinstance(v, float) and not math.isfinite(v) else v
            for v in values
        ]
        answer = self._core("raw", name=f"tabgpt_{name}", values=sent)
        return answer["result"], answer["error"]


@pytest.fixture(params=WASM)
def raw(request: pytest.FixtureRequest, remotes) -> Raw:
    return Raw(remotes(f"wasm-{request.param}"))


@pytest.fixture
def config(raw: Raw) -> Iterator[int]:
    handle = raw.config_new()
    for key, value in FIELDS.items():
        text = isinstance(value, str)
        set_ = raw.config_set_choice if text else raw.config_set
        assert set_(handle, key, value) == 0, key
    yield handle
    raw.config_free(handle)


@pytest.fixture
def session(raw: Raw, config: int) -> Iterator[int]:
    handle = raw.open(config, "train", 1)
    assert handle
    yield handle
    raw.close(handle)


def test_null_handles_and_names(raw: Raw, config: int, session: int) -> None:
    n = None
    for name, *values in (
        ("config_set", n, "ctx", 3), ("config_set", config, n, 3), ("config_check", n),
        ("config_set_choice", n, "schedule", "cosine"),
        ("config_set_choice", config, n, "cosine"), ("config_set_choice", config, "schedule", n),
        ("config_parameters", n), ("learning_rate", n, 0), ("config_field_name", 10**6),
        ("memory", n, "train", 1, 0, "total"), ("memory", config, n, 1, 0, "total"),
        ("memory", config, "train", 1, 0, n),
        ("memory", config, "train", 1, 0, "heap"), ("memory", config, "trial", 1, 0, "total"),
        ("open", n, "train", 1), ("open", config, n, 1), ("open", config, "train", 0),
        ("open", config, "train", 2**31), ("thread_tiles", n, 0), ("thread_tiles", session, 99),
        ("init_weights", n), ("set_tokens", n, n, 0), ("set_tokens", session, n, 50),
        ("tensor_name", n, 0), ("tensor_name", session, 10**6), ("tensor_data", n, "logits"),
        ("tensor_data", session, n), ("tensor_data", session, "nothing"),
        ("set_step_number", n, 0), ("step", n), ("step", session), ("metric", n, "loss"),
        ("metric", session, n), ("metric", session, "nothing"), ("loss", n, n, n, 1, 1, 0, 0, 0),
        ("loss", session, n, n, 1, 1, 0, 0, 0), ("loss_and_grads", session, n, n, 1, 1, 0, 0, 0),
        ("logits", n, n, 1, 1, n), ("logits", session, n, 1, 1, n), ("evaluate_begin", n, "val", 0),
        ("evaluate_begin", session, n, 0), ("evaluate_begin", session, "val", 0),
        ("evaluate_next", n), ("evaluate_next", session), ("generate_begin", n, n, 0, 1, 0, 1, 0),
        ("generate_begin", session, n, 3, 1, 0, 1, 0), ("generate_next", n),
        ("generate_next", session), ("op", n, n, 0, n, 0, 1), ("op", "gemm", n, 0, n, 0, 1),
        ("op", "matmul", n, 11, n, 6, 1), ("op", "adamw", n, 0, n, 0, 1),
    ):  # fmt: skip
        result, error = raw.call(name, *values)
        assert result in ("-1", "0", "NaN"), (name, values, result)
        assert len(error) > 10, (name, values, result, error)
    for name in ("config_free", "close", "free"):
        raw.call(name, None)  # as free(NULL): nothing
    for name in ("threads", "tensor_count", "step_number"):
        assert raw.call(name, None)[0] == "0"


def test_sizes_that_overflow(raw: Raw, session: int) -> None:
    """Products of these pass 2^32 and wrap around to something small."""
    ids = raw.alloc(64)
    for name, *values in (
        ("loss", session, ids, ids, 2**31, 2, 0, 0, 0),
        ("loss", session, ids, ids, 2**30, 4, 0, 0, 0),
        ("loss_and_grads", session, ids, ids, 0, 4, 0, 0, 0),
        ("loss", session, ids, ids, 1, 0, 0, 0, 0),
        ("loss", session, ids, ids, 1, 5, 0, 0, 0),
        ("logits", session, ids, 2**31, 2, ids),
        ("set_tokens", session, ids, 0),
        ("generate_begin", session, ids, 0, 1.0, 0, 1.0, 0),
        ("generate_begin", session, ids, 1, math.nan, 0, 1.0, 0),
        ("generate_begin", session, ids, 1, math.inf, 0, 1.0, 0),
        ("generate_begin", session, ids, 1, 1.0, 0, math.nan, 0),
        ("alloc", 2**32 - 1),
    ):
        result, error = raw.call(name, *values)
        assert result in ("-1", "0", "NaN"), (name, values, result)
        assert len(error) > 10, (name, values, result, error)
    raw.free(ids)


@pytest.mark.parametrize(
    ("key", "value"),
    [("ctx", math.nan), ("lr", math.inf), ("lr", -math.inf), ("steps", 0.5), ("seed", 2**32),
     ("seed", -1), ("vocab_size", 2**40), ("nothing", 1), ("activation", 1), ("", 1)],
)  # fmt: skip
def test_config_values(raw: Raw, config: int, key: str, value: float) -> None:
    result, error = raw.call("config_set", config, key, value)
    assert result == "-1"
    assert re.search(re.escape(key), error), error
    assert raw.config_check(config) == 0, "a refused value must not stick"


def test_config_lacking_a_field_is_refused_by_name(raw: Raw) -> None:
    handle = raw.config_new()
    for key, value in FIELDS.items():
        if key != "beta2":
            set_ = raw.config_set_choice if isinstance(value, str) else raw.config_set
            set_(handle, key, value)
    result, error = raw.call("config_check", handle)
    assert (result, "beta2" in error) == ("-1", True), error
    raw.config_free(handle)
