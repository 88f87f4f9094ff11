"""The model as a whole: names, causality, the tied head, where it starts."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CASES, random_params
from tabgpt import layout, model, philox
from tabgpt.config import preset

EACH_CASE = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])


@EACH_CASE
def test_every_activation_has_its_name_and_shape(case) -> None:
    tokens, targets = case.batch()
    acts = model.forward(case.config, random_params(case.config), tokens, targets)
    expected = layout.activations(case.config, case.B, case.T)
    assert {name: act.shape for name, act in acts.items()} == expected
    assert all(act.dtype == np.float64 for act in acts.values())


@EACH_CASE
def test_the_future_changes_nothing(case) -> None:
    params = random_params(case.config)
    tokens, _ = case.batch()
    logits = model.forward(case.config, params, tokens)["logits"]
    for t in range(case.T - 1):
        other = tokens.copy()
        other[:, t + 1 :] = (other[:, t + 1 :] + 1) % case.config.vocab_size
        changed = model.forward(case.config, params, other)["logits"]
        np.testing.assert_allclose(changed[:, : t + 1], logits[:, : t + 1], rtol=1e-12)
        assert np.abs(changed[:, t + 1 :] - logits[:, t + 1 :]).max() > 1e-6


@EACH_CASE
def test_rows_of_a_batch_are_independent_and_short_windows_are_prefixes(case) -> None:
    params = random_params(case.config)
    tokens, _ = case.batch()
    logits = model.forward(case.config, params, tokens)["logits"]
    for b in range(case.B):
        for length in range(1, case.T + 1):
            alone = model.forward(case.config, params, tokens[b : b + 1, :length])["logits"]
            np.testing.assert_allclose(alone[0], logits[b, :length], rtol=1e-11, atol=1e-12)


def test_a_window_longer_than_the_context_is_refused() -> None:
    config = CASES[0].config
    with pytest.raises(AssertionError, match="7 tokens"):
        model.forward(config, random_params(config), np.zeros((1, 7), int))


CONFIG = preset("tiny").model(vocab_size=65)


def test_layout_order_names_and_count() -> None:
    tensors = layout.tensors(CONFIG)
    names = [tensor.name for tensor in tensors]
    assert names[:4] == [
        "transformer.wte.weight",
        "transformer.wpe.weight",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.0.attn.c_proj.weight",
    ]
    assert names[10:19] == [
        f"transformer.h.0.{part}"
        for part in (
            "ln_1.weight", "ln_1.bias", "attn.c_attn.bias", "attn.c_proj.bias", "ln_2.weight",
            "ln_2.bias", "mlp.c_fc.bias", "mlp.c_proj.bias",
        )
    ] + ["transformer.h.1.ln_1.weight"]  # fmt: skip
    assert names[-2:] == ["transformer.ln_f.weight", "transformer.ln_f.bias"]
    assert [t.decayed for t in tensors] == [len(t.shape) == 2 for t in tensors]
    assert [t.decayed for t in tensors] == sorted((t.decayed for t in tensors), reverse=True)
    per_layer = 12 * 48 * 48 + 13 * 48
    assert sum(int(np.prod(t.shape)) for t in tensors) == (65 + 32) * 48 + 2 * per_layer + 2 * 48


def test_start_is_philox_normals_by_tensor_number() -> None:
    for number, tensor in enumerate(layout.tensors(CONFIG)):
        values = layout.init(tensor, number, seed=1337)
        assert values.shape == tensor.shape
        if not tensor.decayed:
            is_gain = tensor.name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight"))
            assert (values == (1 if is_gain else 0)).all()
            continue
        std = 0.02 / np.sqrt(4) if tensor.name.endswith("c_proj.weight") else 0.02
        z = philox.normal(1337, values.size, 0, 1 << 24 | number << 4)
        np.testing.assert_allclose(values.reshape(-1), std * z, rtol=1e-15)
        assert abs(values.std() / std - 1) < 5 / np.sqrt(2 * values.size)


def test_a_fresh_model_guesses_evenly() -> None:
    params = {t.name: layout.init(t, n, 1337) for n, t in enumerate(layout.tensors(CONFIG))}
    tokens, targets = np.random.default_rng(0).integers(0, 65, (2, 4, 32))
    assert model.loss(CONFIG, params, tokens, targets) == pytest.approx(np.log(65), abs=0.1)
