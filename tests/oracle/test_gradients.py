"""Every gradient of the oracle, against two derivatives that know nothing of it.

Complex step (Squire & Trapp 1998): Im f(x + ih) / h has no subtraction, so h may be
1e-30 and the derivative is exact to rounding. Central differences are the second
witness, from real arithmetic alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CASES, Case, random_params
from tabgpt import layout, model, ops

H = 1e-30
EACH_CASE = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])


def gradients(case: Case) -> tuple[model.Tensors, model.Tensors, model.Tensors]:
    """params, their gradients, those of the activations."""
    params = random_params(case.config)
    tokens, targets = case.batch()
    acts = model.forward(case.config, params, tokens, targets, case.dropout())
    grads, dacts = model.backward(case.config, params, acts, tokens, targets, case.dropout())
    return params, grads, dacts


def largest(grads: model.Tensors) -> float:
    """What rounding is relative to: k's bias, for one, has gradient 0 but for rounding."""
    return max(1e-3, *(np.abs(grad).max() for grad in grads.values()))


@EACH_CASE
def test_every_parameter_by_complex_step(case: Case) -> None:
    params, grads, _ = gradients(case)
    tokens, targets = case.batch()
    assert grads.keys() == params.keys()
    for name, array in params.items():
        derivative = np.empty(array.shape)
        for index in np.ndindex(array.shape):
            moved = array.astype(complex)
            moved[index] += 1j * H
            value = model.loss(case.config, params | {name: moved}, tokens, targets, case.dropout())
            derivative[index] = value.imag / H
        assert grads[name].shape == array.shape
        assert np.abs(grads[name] - derivative).max() <= 1e-13 * largest(grads), name


@EACH_CASE
def test_every_parameter_by_central_differences(case: Case) -> None:
    params, grads, _ = gradients(case)
    tokens, targets = case.batch()
    h = 1e-5
    for name, array in params.items():
        for index in np.ndindex(array.shape):
            values = []
            for delta in (h, -h):
                moved = array.copy()
                moved[index] += delta
                values.append(
                    model.loss(case.config, params | {name: moved}, tokens, targets, case.dropout())
                )
            numeric = (values[0] - values[1]) / (2 * h)
            assert abs(grads[name][index] - numeric) <= 1e-6 * largest(grads), name


def outputs_by_function(config) -> dict[str, list[str]]:
    """Which activation each call of an op makes, in the order of the calls.

    Without dropout, a move of a projection's output is one of the residual it is added to.
    """
    layers = range(config.n_layer)
    return {
        "embedding_forward": ["embed.out"],
        "layernorm_forward": [f"h.{i}.ln_{n}.out" for i in layers for n in (1, 2)] + ["ln_f.out"],
        "attention_forward": [f"h.{i}.attn.out" for i in layers],
        "gelu_forward": [f"h.{i}.mlp.act" for i in layers],
        "linear_forward": [
            f"h.{i}.{name}"
            for i in layers
            for name in ("attn.qkv", "resid_mid", "mlp.fc", "resid_out")
        ],
    }


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in CASES if case.config.dropout == 0]
)
def test_every_named_activation_gradient_by_complex_step(case: Case, monkeypatch) -> None:
    """Moves each activation as it leaves its op, along a random direction."""
    params, _, dacts = gradients(case)
    tokens, targets = case.batch()
    config, B, T = case.config, case.B, case.T
    shapes = layout.activation_gradients(config, B, T)
    assert {name: grad.shape for name, grad in dacts.items()} == shapes
    checked = set()
    for function, names in outputs_by_function(config).items():
        original = getattr(ops, function)
        for call, name in enumerate(names):
            direction = np.random.default_rng(5).standard_normal(shapes[name])
            count = iter(range(len(names)))

            def moved(*args, call=call, direction=direction, count=count, original=original):
                result = original(*args)
                if next(count) != call:
                    return result
                if isinstance(result, tuple):
                    return (result[0] + 1j * H * direction, *result[1:])
                return result + 1j * H * direction

            with monkeypatch.context() as patch:
                patch.setattr(ops, function, moved)
                slope = model.loss(config, params, tokens, targets).imag / H
            assert slope == pytest.approx(np.sum(dacts[name] * direction), rel=1e-12, abs=1e-14), (
                name
            )
            checked.add(name)
    direction = np.random.default_rng(5).standard_normal(shapes["logits"])
    logits = model.forward(config, params, tokens)["logits"]
    losses = ops.cross_entropy_forward(logits + 1j * H * direction, targets)
    assert np.mean(losses).imag / H == pytest.approx(np.sum(dacts["logits"] * direction))
    assert checked | {"logits"} == shapes.keys()
