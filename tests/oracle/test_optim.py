"""Schedule, clipping and AdamW against numbers worked by hand."""

from __future__ import annotations

import dataclasses
from math import cos, pi, sqrt

import numpy as np
import pytest
from tabgpt import optim
from tabgpt.config import TrainConfig

TRAIN = TrainConfig(
    lr=1e-3, warmup_steps=4, steps=24, min_lr_ratio=0.1, schedule="cosine",
    beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, grad_clip=1.0,
)  # fmt: skip


def changed(**fields: object) -> TrainConfig:
    return dataclasses.replace(TRAIN, **fields)


@pytest.mark.parametrize(
    ("step", "lr"),
    [
        (0, 1e-3 / 5),
        (3, 1e-3 * 4 / 5),
        (4, 1e-3),  # the cosine's top
        (9, 1e-4 + 0.5 * (1 + cos(pi / 4)) * 9e-4),
        (14, 5.5e-4),  # half way
        (24, 1e-4),
        (1000, 1e-4),  # beyond the last step it stays
    ],
)
def test_warmup_then_cosine_to_a_tenth(step: int, lr: float) -> None:
    assert optim.learning_rate(TRAIN, step) == pytest.approx(lr, rel=1e-14)


def test_constant_schedule_warms_up_and_stays() -> None:
    train = changed(schedule="constant")
    rates = [optim.learning_rate(train, step) for step in (1, 4, 23, 1000)]
    assert rates == pytest.approx([4e-4, 1e-3, 1e-3, 1e-3], rel=1e-14)


def test_no_warmup_and_a_run_that_is_all_warmup() -> None:
    assert optim.learning_rate(changed(warmup_steps=0), 0) == 1e-3
    all_warmup = changed(warmup_steps=24)
    assert optim.learning_rate(all_warmup, 23) == pytest.approx(1e-3 * 24 / 25)
    assert optim.learning_rate(all_warmup, 24) == 1e-3


def test_global_norm_is_over_all_tensors() -> None:
    assert optim.global_norm([np.array([3.0]), np.array([[0.0, 4.0]])]) == 5
    assert np.isnan(optim.global_norm([np.array([1.0]), np.array([np.nan])]))
    assert np.isinf(optim.global_norm([np.array([np.inf])]))


def test_clip_shrinks_only_and_zero_is_off() -> None:
    assert optim.clip_coefficient(5.0, 1.0) == 1 / (5 + 1e-6)
    assert optim.clip_coefficient(0.5, 1.0) == 1
    assert optim.clip_coefficient(0.0, 1.0) == 1
    assert optim.clip_coefficient(5.0, 0.0) == 1


@pytest.mark.parametrize("decayed", [True, False])
def test_adamw_two_steps_by_hand(decayed: bool) -> None:
    train = changed(schedule="constant", warmup_steps=1, lr=0.01, eps=0.5, weight_decay=0.2)
    p, m, v = np.array([2.0]), np.zeros(1), np.zeros(1)
    # The warm-up makes lr 0.005, then 0.01; decay follows it.
    decay = (1 - 0.005 * 0.2, 1 - 0.01 * 0.2) if decayed else (1.0, 1.0)

    optim.adamw(p, np.array([3.0]), m, v, train=train, step=0, decayed=decayed)
    # m = 0.3, v = 0.45; corrected: 3 and 9
    first = 2 * decay[0] - 0.005 * 3 / (3 + 0.5)
    assert (m[0], v[0]) == (pytest.approx(0.3), pytest.approx(0.45))
    assert p[0] == pytest.approx(first, rel=1e-14)

    optim.adamw(p, np.array([-1.0]), m, v, train=train, step=1, decayed=decayed)
    # m = 0.27 - 0.1, v = 0.4275 + 0.05; corrections 1 - 0.81 and 1 - 0.9025
    second = first * decay[1] - 0.01 * (0.17 / 0.19) / (sqrt(0.4775 / 0.0975) + 0.5)
    assert (m[0], v[0]) == (pytest.approx(0.17), pytest.approx(0.4775))
    assert p[0] == pytest.approx(second, rel=1e-14)
