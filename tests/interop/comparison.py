"""The cases, and the oracle's side of each comparison; numpy alone."""

from __future__ import annotations

from itertools import islice

import numpy as np
from tabgpt import layout, model, optim
from tabgpt.backends import open_session
from tabgpt.config import ModelConfig, TrainConfig

Arrays = dict[str, np.ndarray]

CONFIGS = {
    "usual": ModelConfig(
        vocab_size=17, ctx=12, n_layer=2, n_head=2, d_model=8, activation="gelu_tanh"
    ),
    "odd sizes": ModelConfig(
        vocab_size=7, ctx=9, n_layer=3, n_head=3, d_model=9, d_mlp=11, activation="gelu_erf"
    ),
    "one head": ModelConfig(
        vocab_size=5, ctx=5, n_layer=1, n_head=1, d_model=5, d_mlp=3, activation="gelu_tanh"
    ),
}
# Clipping fires, decay and bias correction show, eps is felt.
TRAIN = TrainConfig(
    lr=0.02, warmup_steps=2, steps=5, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.5,
    grad_clip=0.5, schedule="cosine",
)  # fmt: skip
N_STEPS = 5
PROMPT = [1, 0]


def rates() -> list[float]:
    return [optim.learning_rate(TRAIN, step) for step in range(N_STEPS)]


def batch(config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
    """tokens and targets [3,T] of a full context; the targets are not the tokens shifted."""
    ids = np.random.default_rng(3).integers(0, config.vocab_size, (2, 3, config.ctx))
    return ids[0], ids[1]


def new_tokens(config: ModelConfig) -> int:
    """As many as fit: transformers has no rule for a full context."""
    return config.ctx - len(PROMPT)


def our_outcome(config: ModelConfig, weights: Arrays) -> Arrays:
    """The oracle's logits, loss, gradients and greedy continuation."""
    session = open_session("numpy", config, mode="train")
    for name, array in weights.items():
        session.set(name, array)
    tokens, targets = batch(config)
    loss = session.loss_and_grads(tokens, targets)
    greedy = islice(session.generate(PROMPT, temperature=0), new_tokens(config))
    return {
        "logits": session.logits(tokens),
        "loss": np.array([loss]),
        "greedy": np.array(list(greedy)),
        **{f"grad:{name}": session.tensor(f"grad:{name}") for name in weights},
    }


def our_trained(config: ModelConfig, weights: Arrays) -> tuple[Arrays, list[float]]:
    """Weights after N_STEPS on one batch, and the norms before clipping."""
    params = {name: array.copy() for name, array in weights.items()}
    moments = {role: {n: np.zeros_like(a) for n, a in params.items()} for role in "mv"}
    tokens, targets = batch(config)
    norms = []
    for step in range(N_STEPS):
        acts = model.forward(config, params, tokens, targets)
        grads, _ = model.backward(config, params, acts, tokens, targets)
        norms.append(optim.global_norm(grads.values()))
        coefficient = optim.clip_coefficient(norms[-1], TRAIN.grad_clip)
        for tensor in layout.tensors(config):
            n = tensor.name
            m, v = moments["m"][n], moments["v"][n]
            optim.adamw(
                params[n], coefficient * grads[n], m, v, train=TRAIN, step=step,
                decayed=tensor.decayed,
            )  # fmt: skip
    return params, norms


def assert_same(ours: Arrays, theirs: Arrays) -> None:
    """To rounding in float64, every name on both sides; token ids exactly."""
    assert ours.keys() == theirs.keys()
    largest = max(np.abs(a).max() for name, a in theirs.items() if name != "greedy")
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape, name
        if name == "greedy":
            assert ours[name].tolist() == expected.tolist()
        else:
            error = np.abs(ours[name] - expected).max()
            assert error <= 1e-12 * max(1.0, largest), f"{name}: off by {error:.1e}"
