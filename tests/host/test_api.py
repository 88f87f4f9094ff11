"""The model handle: logits, gradients, text, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt import layout
from tabgpt.api import decode_stream
from tabgpt.errors import BackendError, TabgptError, TokenizerError
from tabgpt.tokenizer import ByteTokenizer, CharTokenizer


@pytest.fixture(params=["numpy", "native"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tabgpt.Model:
    checkpoints.save(tmp_path / "model", tiny_run.checkpoint())
    return tabgpt.load(tmp_path / "model", backend=request.param)


def batch(B: int = 2, T: int = 5) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(3).integers(0, 11, (2, B, T))
    return ids[0], ids[1]


def test_logits_and_loss_agree(model: tabgpt.Model) -> None:
    tokens, targets = batch()
    logits = model.logits(tokens.tolist())
    assert logits.shape == (2, 5, 11)
    log_sum = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(model.loss(tokens, targets), (log_sum - chosen).mean(), rtol=1e-5)


def test_any_number_of_rows(model: tabgpt.Model) -> None:
    """A checkpoint without a run plans for one row; more are taken in turn."""
    tokens, targets = batch(7, 8)
    rows = [model.loss(tokens[i : i + 1], targets[i : i + 1]) for i in range(7)]
    np.testing.assert_allclose(model.loss(tokens, targets), np.mean(rows), rtol=1e-6)
    np.testing.assert_array_equal(model.logits(tokens)[6], model.logits(tokens[6:])[0])


def test_gradients_have_the_weights_names_and_shapes(model: tabgpt.Model) -> None:
    small, large = batch(1, 3), batch(4, 8)
    loss, grads = model.loss_and_grads(*small)
    assert {n: g.shape for n, g in grads.items()} == {
        t.name: t.shape for t in layout.tensors(model.config)
    }
    np.testing.assert_allclose(model.loss_and_grads(*large)[0], model.loss(*large), rtol=1e-6)
    again = model.loss_and_grads(*small)
    assert again[0] == loss
    for name in grads:
        np.testing.assert_array_equal(again[1][name], grads[name])


def test_a_step_against_the_gradient_lowers_the_loss(model: tabgpt.Model) -> None:
    tokens, targets = batch()
    loss, grads = model.loss_and_grads(tokens, targets)
    weights = model.weights().items()
    model.set_weights({name: weight - 1e-2 * grads[name] for name, weight in weights})
    assert model.loss(tokens, targets) < loss
    again = model.loss_and_grads(tokens, targets)[0]
    np.testing.assert_allclose(again, model.loss(tokens, targets), rtol=1e-6)


def test_text_depends_on_the_seed_alone(model: tabgpt.Model) -> None:
    options: dict[str, Any] = {"max_new_tokens": 30, "temperature": 1.0, "top_k": 0}
    first = model.generate("abc", seed=1, **options)
    assert first.startswith("abc") and len(first) == 33
    assert model.generate("abc", seed=1, **options) == first
    assert model.generate("abc", seed=2, **options) != first
    ids = model.generate([0, 1, 2], seed=1, **options)
    assert model.tokenizer.decode(ids) == first
    assert len(model.generate(max_new_tokens=4)) == 4


def test_greedy_takes_the_likeliest(model: tabgpt.Model) -> None:
    ids = model.generate([3, 4], max_new_tokens=6, temperature=0)
    for n in range(2, 8):
        assert ids[n] == int(np.argmax(model.logits([ids[:n]])[0, -1]))


def test_text_ends_before_the_stop_text(model: tabgpt.Model) -> None:
    options: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0, "seed": 3}
    text = model.generate("abc", **options)
    stop = text[20:22]
    assert model.generate("abc", stop=stop, **options) == text[: text.index(stop, 3)]


def test_stop_text_may_span_tokens_and_bytes() -> None:
    tokenizer = ByteTokenizer()
    ids = [int(i) for i in tokenizer.encode("aab 🦊ab")]
    assert list(decode_stream(tokenizer, iter(ids), "ab 🦊a")) == ["a", ""]
    assert "".join(decode_stream(tokenizer, iter(ids), "zz")) == "aab 🦊ab"
    assert "".join(decode_stream(CharTokenizer("ab"), iter([0, 0, 0]), "aab")) == "aaa"


@pytest.mark.parametrize(
    ("ask", "parts"),
    [
        (lambda m: m.logits([[11]]), ["11"]),
        (lambda m: m.logits([[-1]]), ["-1"]),
        (lambda m: m.logits([[0] * 9]), ["9", "8"]),
        (lambda m: m.logits([0, 1]), ["1", "2"]),
        (lambda m: m.logits([[0.5]]), ["float64"]),
        (lambda m: m.logits([[0], [0, 1]]), ["tokens", "differ in length"]),
        (lambda m: m.loss_and_grads([[0]], [[0], [0, 1]]), ["targets", "differ in length"]),
        (lambda m: m.logits(np.zeros((0, 4), int)), []),
        (lambda m: m.logits(np.zeros((1, 0), int)), ["0"]),
        (lambda m: m.loss([[0, 1]], [[0]]), ["2", "1"]),
        (lambda m: m.loss_and_grads([[0]], [[12]]), ["12"]),
        (lambda m: m.generate("xyz"), ["'x'", "U+0078"]),
        (lambda m: m.generate([0, 99]), ["99", "0 to 10"]),
        (lambda m: m.generate([0.5]), ["token ids"]),
        (lambda m: m.generate([0], stop="a"), ["stop is 'a'", "give the prompt as text"]),
        (lambda m: m.generate("a", temperature=-1), ["temperature is -1"]),
        (lambda m: m.generate("a", temperature=float("nan")), ["temperature is nan"]),
        (lambda m: m.generate("a", top_k=-1), ["top_k is -1"]),
        (lambda m: m.generate("a", top_p=0), ["top_p is 0"]),
        (lambda m: m.generate("a", max_new_tokens=0), ["max_new_tokens is 0"]),
        (lambda m: m.generate("a", seed=2**32), ["sample_seed is 4294967296"]),
    ],
)
def test_bad_arguments_are_named(
    model: tabgpt.Model, ask: Callable[[tabgpt.Model], object], parts: list[str]
) -> None:
    with pytest.raises(TabgptError) as caught:
        ask(model)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_backend_and_threads(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, tiny_run.checkpoint())
    with pytest.raises(BackendError, match="unknown backend 'nativ'; did you mean 'native'"):
        tabgpt.load(tmp_path, backend="nativ")
    with pytest.raises(BackendError, match="threads is 0; it must be from 1 to 1024"):
        tabgpt.load(tmp_path, threads=0)
    for threads in ("2", 1.5):
        with pytest.raises(BackendError, match=f"threads is {threads!r}.*a whole number"):
            tabgpt.load(tmp_path, threads=threads)  # type: ignore[arg-type]


def test_an_emoji_prompt(tmp_path: Path) -> None:
    made = tiny_run.checkpoint(tiny_run.model_config(vocab_size=3))
    made.tokenizer = CharTokenizer("\n\ufffd🦊")
    checkpoints.save(tmp_path, made)
    model = tabgpt.load(tmp_path, backend="numpy")
    text = model.generate("🦊🦊", max_new_tokens=20, temperature=1.0)
    assert text.startswith("🦊🦊") and set(text) <= set("\n\ufffd🦊")
    with pytest.raises(TokenizerError, match=r"U\+1F98B"):
        model.generate("🦋")
