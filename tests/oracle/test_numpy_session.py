"""The oracle as a backend: what open_session("numpy") promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from small_models import random_params
from tabgpt import batches, layout, model, optim
from tabgpt.backends import open_session
from tabgpt.config import ModelConfig, TrainConfig
from tabgpt.errors import BackendError, CorpusError
from tabgpt.ops import Dropout

CONFIG = ModelConfig(
    vocab_size=9, ctx=6, n_layer=2, n_head=2, d_model=6, d_mlp=10, dropout=0.2,
    activation="gelu_erf",
)  # fmt: skip
TRAIN = TrainConfig(
    batch_size=3, grad_accum=2, steps=40, lr=1e-2, warmup_steps=3, grad_clip=0.4, weight_decay=0.5,
    schedule="cosine", seed=3_000_000_001,
)  # fmt: skip
TOKENS = np.tile(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 1, 0, 6]), 12)


def session(mode: str = "train", config: ModelConfig = CONFIG, **train: object):
    opened = open_session("numpy", config, dataclasses.replace(TRAIN, **train), TOKENS, mode)
    opened.init_weights()
    return opened


def params_of(opened) -> model.Tensors:
    return {t.name: opened.tensor(t.name) for t in layout.tensors(opened.config)}


def test_a_step_is_what_its_parts_say() -> None:
    """Accumulation over two micro-batches with dropout, clipping and AdamW, written out."""
    opened = session()
    opened.step()
    before = {name: array.copy() for name, array in params_of(opened).items()}
    moments = {
        role: {name: opened.tensor(f"{role}:{name}").copy() for name in before} for role in "mv"
    }
    metrics = opened.step()

    part = TOKENS[: 168 - 16]
    losses, grads = [], []
    for micro in (0, 1):
        tokens, targets = batches.training_batch(part, 6, 3, TRAIN.seed, 1, micro)
        dropout = Dropout(0.2, TRAIN.seed, 1, micro)
        acts = model.forward(CONFIG, before, tokens, targets, dropout)
        losses.append(acts["losses"].mean())
        grads.append(model.backward(CONFIG, before, acts, tokens, targets, dropout)[0])
    mean = {name: (grads[0][name] + grads[1][name]) / 2 for name in before}
    norm = np.sqrt(sum((grad**2).sum() for grad in mean.values()))
    assert norm > TRAIN.grad_clip
    assert metrics.step == 1
    assert metrics.finite
    assert metrics.loss == pytest.approx(np.mean(losses), rel=1e-14)
    assert metrics.grad_norm == pytest.approx(norm, rel=1e-13)
    assert metrics.lr == optim.learning_rate(TRAIN, 1) == 1e-2 * 2 / 4
    for tensor in layout.tensors(CONFIG):
        name = tensor.name
        np.testing.assert_allclose(opened.tensor(f"grad:{name}"), mean[name], atol=1e-15)
        optim.adamw(
            before[name], mean[name] * (0.4 / (norm + 1e-6)), moments["m"][name],
            moments["v"][name], train=TRAIN, step=1, decayed=len(tensor.shape) == 2,
        )  # fmt: skip
        np.testing.assert_allclose(opened.tensor(name), before[name], rtol=1e-12, atol=1e-16)
    assert opened.step_number == 2


def test_it_learns_a_loop_of_tokens() -> None:
    calm = dataclasses.replace(CONFIG, dropout=0.0)
    opened = session(config=calm, steps=150, warmup_steps=10, grad_clip=1.0)
    losses = [opened.step().loss for _ in range(150)]
    assert np.mean(losses[:5]) > 2.0
    assert opened.evaluate("val") < 1.0


def test_evaluation_is_the_mean_over_targets_without_dropout() -> None:
    opened = session()
    params, val = params_of(opened), TOKENS[-16:]
    losses = [
        model.forward(CONFIG, params, val[None, start:end], val[None, start + 1 : end + 1])[
            "losses"
        ]
        for start, end in ((0, 6), (6, 12), (12, 15))
    ]
    expected = np.concatenate(losses, axis=1).mean()
    assert opened.evaluate("val") == pytest.approx(expected, rel=1e-13)
    seeded = [
        model.loss(CONFIG, params, *batch)
        for batch in batches.evaluation_batches(TOKENS[:-16], 6, 3, TRAIN.seed, 4)
    ]
    assert opened.evaluate("train", 4) == pytest.approx(np.mean(seeded), rel=1e-13)


def test_resuming_from_tensors_and_step_number_is_exact() -> None:
    whole = session()
    losses = [whole.step().loss for _ in range(6)]
    first, second = session(), session()
    for _ in range(3):
        first.step()
    for name in first.names():
        second.set(name, first.tensor(name))
    second.step_number = first.step_number
    assert [second.step().loss for _ in range(3)] == losses[3:]
    for name in whole.names():
        np.testing.assert_array_equal(second.tensor(name), whole.tensor(name))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_that_is_not_finite_changes_only_the_step_number(bad: float) -> None:
    opened = session()
    opened.step()
    bias = opened.tensor("transformer.h.0.mlp.c_fc.bias").copy()
    bias[1] = bad
    opened.set("transformer.h.0.mlp.c_fc.bias", bias)
    kept = [name for name in opened.names() if not name.startswith("grad:")]
    before = {name: opened.tensor(name).copy() for name in kept}
    metrics = opened.step()
    assert not metrics.finite
    assert not np.isfinite(metrics.loss)
    assert opened.step_number == 2
    for name, array in before.items():
        np.testing.assert_array_equal(opened.tensor(name), array)


def test_a_finite_loss_with_an_infinite_gradient_norm_is_not_a_step(monkeypatch) -> None:
    opened = session()
    before = opened.tensor("transformer.wte.weight").copy()
    monkeypatch.setattr(optim, "global_norm", lambda _: np.inf)
    metrics = opened.step()
    assert np.isfinite(metrics.loss)
    assert not metrics.finite
    np.testing.assert_array_equal(opened.tensor("transformer.wte.weight"), before)


def test_dropout_only_where_asked_for() -> None:
    opened = session("probe")
    tokens, targets = TOKENS[None, :6], TOKENS[None, 1:7]
    plain = opened.loss(tokens, targets)
    assert plain == model.loss(CONFIG, params_of(opened), tokens, targets)
    assert opened.loss(tokens, targets, False, 4, 1) == plain
    assert opened.loss(tokens, targets, True, 4, 1) != plain
    assert opened.loss(tokens, targets, True, 4, 1) == opened.loss(tokens, targets, True, 4, 1)
    assert opened.loss(tokens, targets, True, 4, 1) != opened.loss(tokens, targets, True, 4, 0)
    np.testing.assert_array_equal(opened.tensor("logits").shape, (1, 6, 9))


def test_a_probe_names_everything_and_holds_it_after_a_batch() -> None:
    opened = session("probe")
    with pytest.raises(BackendError, match="no batch"):
        opened.tensor("h.0.attn.lse")
    loss = opened.loss_and_grads(TOKENS[None, :5], TOKENS[None, 1:6], True, 2, 1)
    assert loss == pytest.approx(opened.tensor("losses").mean())
    params = [t.name for t in layout.tensors(CONFIG)]
    shapes = layout.activations(CONFIG, 1, 5)
    dshapes = layout.activation_gradients(CONFIG, 1, 5)
    assert opened.names() == (
        [role + name for role in ("", "grad:", "m:", "v:") for name in params]
        + list(shapes)
        + [f"grad:{name}" for name in dshapes]
    )
    for name, shape in shapes.items():
        assert opened.tensor(name).shape == shape
    for name, shape in dshapes.items():
        assert opened.tensor(f"grad:{name}").shape == shape
    assert np.abs(opened.tensor("grad:h.0.ln_1.out")).max() > 0


def test_modes_hold_what_they_say() -> None:
    assert session("infer").names() == [t.name for t in layout.tensors(CONFIG)]
    assert len(session("train").names()) == 4 * len(layout.tensors(CONFIG))
    with pytest.raises(BackendError, match="holds no gradients"):
        session("infer").loss_and_grads(TOKENS[None, :6], TOKENS[None, 1:7])
    with pytest.raises(BackendError, match="cannot train"):
        session("infer").step()
    with pytest.raises(BackendError, match="mode is 'fast'"):
        session("fast")


def test_tensors_are_written_by_set_alone() -> None:
    opened = session("infer")
    before = opened.logits(TOKENS[None, :6])
    for name, array in random_params(CONFIG).items():
        opened.set(name, array)
    assert np.abs(opened.logits(TOKENS[None, :6]) - before).max() > 0.1
    with pytest.raises(ValueError, match="read-only"):
        opened.tensor("transformer.wte.weight")[0, 0] = 1
    with pytest.raises(BackendError, match=r"wpe.weight has shape .*, not \(2,\)"):
        opened.set("transformer.wpe.weight", np.zeros(2))


def test_init_weights_starts_over() -> None:
    opened = session()
    opened.step()
    opened.init_weights()
    assert opened.step_number == 0
    fresh = session()
    for name in fresh.names():
        np.testing.assert_array_equal(opened.tensor(name), fresh.tensor(name))


def test_generation_is_a_function_of_its_seed_and_follows_the_logits() -> None:
    opened = session("infer")
    for name, array in random_params(CONFIG).items():
        opened.set(name, array)

    def text(**options: object) -> list[int]:
        tokens = opened.generate([1, 2], **({"temperature": 1.5, "seed": 4} | options))
        return [next(tokens) for _ in range(20)]

    assert text() == text()
    assert text() != text(seed=5)
    greedy = text(temperature=0)
    assert greedy == text(temperature=0, seed=5)
    assert greedy[0] == opened.logits(np.array([[1, 2]]))[0, -1].argmax()
    assert greedy[1] == opened.logits(np.array([[1, 2, greedy[0]]]))[0, -1].argmax()


def test_memory_adds_up_and_knows_the_mode() -> None:
    n = sum(int(np.prod(t.shape)) for t in layout.tensors(CONFIG))
    train, infer = session("train").memory(), session("infer").memory()
    for memory in (train, infer):
        assert memory["total"] == sum(b for role, b in memory.items() if role != "total")
        assert memory["parameters"] == 8 * n
    assert train["adam_m"] == train["adam_v"] == 8 * n
    assert infer["adam_m"] == infer["gradients"] == 0


def test_what_memory_cannot_hold_is_refused_before_it_is_asked_for() -> None:
    """Linux would grant it, and kill the process that touches it."""
    train = TrainConfig(batch_size=65536)
    config = ModelConfig(vocab_size=9, ctx=6, n_layer=1023, n_head=8, d_model=1024)
    with pytest.raises(BackendError, match=r"needs \d{13,} bytes.*this machine has.*batch_size"):
        open_session("numpy", config, train, TOKENS, "train")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[0, 9]], "tokens: id 9; ids run from 0 to 8"),
        ([[0, -1]], "tokens: id -1"),
        ([[0] * 7], "7 in a row; from 1 to ctx = 6"),
        ([[]], "dtype float64"),
        ([[0.5]], "dtype float64"),
        ([0, 1], "1 dimensions; give 2"),
        (np.zeros((0, 3), int), "no rows"),
        (np.zeros((2, 0), int), "0 in a row"),
    ],
)
def test_odd_ids_are_refused(tokens: object, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        session("infer").logits(np.asarray(tokens))


def test_other_odd_calls_are_refused() -> None:
    opened = session("probe")
    with pytest.raises(BackendError, match=r"no tensor 'transformer\.wte'"):
        opened.tensor("transformer.wte")
    with pytest.raises(BackendError, match="split is 'test'"):
        opened.evaluate("test")
    with pytest.raises(BackendError, match="must be equal"):
        opened.loss(np.zeros((1, 3), int), np.zeros((1, 4), int))
    with pytest.raises(BackendError, match="prompt: id 9"):
        next(opened.generate([9], 1.0))
    with pytest.raises(BackendError, match="no corpus"):
        open_session("numpy", CONFIG, TRAIN, None, "train").step()
    with pytest.raises(CorpusError, match="needs at least 7 and 2"):
        open_session("numpy", CONFIG, TRAIN, TOKENS[:10], "train")


def test_a_closed_session_is_an_error() -> None:
    opened = session("probe")
    opened.close()
    opened.close()
    ids = np.zeros((1, 3), int)
    for call in (
        opened.step,
        opened.names,
        opened.init_weights,
        lambda: opened.logits(ids),
        lambda: opened.loss_and_grads(ids, ids),
        lambda: opened.evaluate("val"),
        lambda: opened.tensor("transformer.wte.weight"),
        lambda: next(opened.generate([1], 1.0)),
    ):
        with pytest.raises(BackendError, match="the session is closed; open a new one"):
            call()
