"""tabgpt._core: what the binding adds to the C ABI; a session's calls may come in any order."""

from __future__ import annotations

import array
import dataclasses
import gc
import threading
import time

import numpy as np
import pytest
from tabgpt import _core
from tabgpt.config import ModelConfig, TrainConfig

MODEL = ModelConfig(vocab_size=11, ctx=8, n_layer=2, n_head=2, d_model=8, dropout=0.1)
TRAIN = TrainConfig(batch_size=3, grad_accum=2, steps=20, seed=1)
CORPUS = np.random.default_rng(0).integers(0, 11, 300)
WTE = "transformer.wte.weight"


def config(model: ModelConfig = MODEL, train: TrainConfig = TRAIN) -> _core.Config:
    return _core.Config({**model.to_dict(), **train.to_dict()})


def session(mode: str = "train", threads: int = 1) -> _core.Session:
    opened = _core.Session(config(), mode, threads)
    opened.init_weights()
    opened.set_tokens(CORPUS)
    return opened


def test_a_view_is_live_and_outlives_its_session() -> None:
    opened = session()
    view = opened.tensor(WTE)
    view[...] = 0.25
    assert (opened.tensor(WTE) == 0.25).all()
    opened.close()
    opened.close()
    del opened
    gc.collect()
    assert (view == 0.25).all()


def test_ids_need_no_numpy() -> None:
    """array.array, and a memoryview of two axes, as Pyodide without numpy has them."""
    ids = array.array("I", [1, 2, 3, 4, 5, 6])
    pairs = memoryview(ids).cast("B").cast("I", (2, 3))
    opened = session()
    assert opened.loss(pairs, pairs) == opened.loss(np.array(pairs), np.array(pairs))
    with pytest.raises(_core.TabgptError, match="1 axes"):
        opened.loss(ids, ids)
    with pytest.raises(_core.TabgptError, match="dtype float64"):
        opened.loss(memoryview(array.array("d", [1.0])).cast("B").cast("d", (1, 1)), pairs)


def test_a_closed_session_is_an_error() -> None:
    opened = session()
    opened.close()
    for call in (opened.step, opened.names, opened.init_weights, opened.generate_next):
        with pytest.raises(_core.TabgptError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.ones((1, 4)), "dtype float64"),
        (np.ones(4, np.int64), "1 axes"),
        (np.array([[1, -1]]), r"tokens\[1\] is -1"),
        (np.array([[1, 2**40]]), r"tokens\[1\] is 1099511627776"),
        (np.array([[1, 11]], np.uint8), r"tokens\[1\] is 11.*vocab_size, 11"),
    ],
)
def test_ids_that_are_refused(tokens: np.ndarray, message: str) -> None:
    with pytest.raises(_core.TabgptError, match=message):
        session("infer").logits(tokens)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_ids_of_any_integer_dtype_and_order(dtype: type) -> None:
    opened = session("infer")
    tokens = CORPUS[:24].reshape(3, 8)
    expected = opened.logits(tokens)
    np.testing.assert_array_equal(opened.logits(np.asfortranarray(tokens.astype(dtype))), expected)


def test_two_threads_never_share_a_session() -> None:
    """The second caller gets an error while the first runs without the GIL."""
    model = dataclasses.replace(MODEL, ctx=128, d_model=128, n_layer=4)
    opened = _core.Session(config(model, dataclasses.replace(TRAIN, batch_size=16)), "train", 1)
    opened.init_weights()
    opened.set_tokens(np.tile(CORPUS, 10))
    worker = threading.Thread(target=opened.step)
    worker.start()
    refused = 0
    while worker.is_alive():  # this loop runs at all only because the step released the GIL
        try:
            opened.evaluate_begin("val")
        except _core.TabgptError as error:
            assert "another thread" in str(error)
            refused += 1
        time.sleep(0.001)
    worker.join()
    assert refused > 0


def test_calls_in_any_order_leave_the_steps_as_they_are() -> None:
    tokens = CORPUS[:24].reshape(3, 8)

    def run(interleaved: bool) -> list[tuple[float, float]]:
        opened = session("probe", threads=2)
        metrics, more = [], True
        if interleaved:
            opened.evaluate_begin("train")
            opened.generate_begin([1, 2, 3], seed=4)
        for _ in range(8):
            opened.step()
            metrics.append((opened.metric("loss"), opened.metric("grad_norm")))
            if interleaved:
                more = more and opened.evaluate_next()
                opened.generate_next()
                opened.logits(tokens)
                opened.loss_and_grads(tokens, tokens, train=True)
        return metrics

    assert run(True) == run(False)


def test_a_generation_goes_on_with_new_weights() -> None:
    """After a step the cache is refilled: the next token is that of a generation begun there."""
    opened = session()
    opened.generate_begin([1, 2, 3], temperature=0)
    first = opened.generate_next()
    opened.tensor(WTE)[...] += np.random.default_rng(1).normal(0, 1, opened.tensor(WTE).shape)
    opened.step()
    second = opened.generate_next()
    opened.generate_begin([1, 2, 3, first], temperature=0)
    assert opened.generate_next() == second


@pytest.mark.parametrize("mode", ["infer", "train", "probe"])
def test_memory_names_what_the_arenas_hold(mode: str) -> None:
    """The parameters' bytes are those of the tensors, each rounded up to 256."""
    opened = session(mode)
    planned = _core.memory(config(), mode, 1, len(CORPUS))
    bytes_of = {"parameters": 0, "gradients": 0, "adam_m": 0, "adam_v": 0}
    roles = {"": "parameters", "grad": "gradients", "m": "adam_m", "v": "adam_v"}
    for name in opened.names():
        role, _, tensor = name.rpartition(":")
        if tensor.startswith("transformer."):
            bytes_of[roles[role]] += -(-opened.tensor(name).nbytes // 256) * 256
    assert {role: planned[role] for role in bytes_of} == bytes_of
    assert planned["total"] == sum(planned.values()) - planned["total"]


def test_a_model_beyond_the_machine_is_refused_with_its_bytes() -> None:
    model = ModelConfig(vocab_size=11, ctx=8, n_layer=1000, n_head=512, d_model=65536)
    planned = _core.memory(config(model), "train", 1)["total"]
    with pytest.raises(_core.TabgptError, match=f"needs {planned} bytes"):
        _core.Session(config(model), "train", 1)
