"""Learning rate, clipping and AdamW. Steps count from 0."""

from __future__ import annotations

from collections.abc import Iterable
from math import cos, pi, sqrt

import numpy as np

from .config import TrainConfig
from .ops import Array


def learning_rate(train: TrainConfig, step: int) -> float:
    """Linear warm-up, then constant, or a cosine from lr to lr * min_lr_ratio (as nanoGPT)."""
    if step < train.warmup_steps:
        return train.lr * (step + 1) / (train.warmup_steps + 1)
    if train.schedule == "constant":
        return train.lr
    ratio = min(1.0, (step - train.warmup_steps) / max(1, train.steps - train.warmup_steps))
    min_lr = train.lr * train.min_lr_ratio
    return min_lr + 0.5 * (1 + cos(pi * ratio)) * (train.lr - min_lr)


def global_norm(grads: Iterable[Array]) -> float:
    """The 2-norm of all gradients as one vector; not finite if any element is not."""
    return sqrt(sum(float(np.sum(g * g)) for g in grads))


def clip_coefficient(norm: float, grad_clip: float) -> float:
    """The factor that brings the gradients' norm down to grad_clip (0: never clipped)."""
    if grad_clip == 0:
        return 1.0
    return min(1.0, grad_clip / (norm + 1e-6))  # 1e-6 as torch.nn.utils.clip_grad_norm_


def adamw(
    p: Array, g: Array, m: Array, v: Array, *, train: TrainConfig, step: int, decayed: bool
) -> None:
    """One update of p, m, v in place (Loshchilov & Hutter 2019, alg. 2, in torch's order)."""
    lr, beta1, beta2 = learning_rate(train, step), train.beta1, train.beta2
    if decayed:
        p *= 1 - lr * train.weight_decay
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g * g
    correction1 = 1 - beta1 ** (step + 1)
    correction2 = 1 - beta2 ** (step + 1)
    p -= lr / correction1 * m / (np.sqrt(v) / sqrt(correction2) + train.eps)
