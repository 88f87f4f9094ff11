"""`--tune`: which kernels it chooses, what it remembers, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tabgpt
import tiny_run
from tabgpt import _core
from tabgpt.errors import BackendError, ConfigError
from tabgpt.sweep import tune
from tabgpt.sweep.stage import Row, Variant, variants

CASES = Counter({"matmul NN 8 8 8": 3, "matmul NT 8 8 8": 1, "attention forward 1 1 8 8": 1})
TRIED = [
    Variant("matmul", "tiled", "", True, True),
    Variant("matmul", "naive", "", True, False),
    Variant("attention", "plain", "", True, True),
]


def row(case: str, variant: str, seconds: float | None) -> Row:
    samples = [] if seconds is None else [seconds]
    return Row("kernel", case, "model", variant, True, ok=seconds is not None, wall_s=samples)


def rows(naive_nt: float | None) -> list[Row]:
    return [
        row("matmul NN 8 8 8", "tiled", 2e-3),
        row("matmul NT 8 8 8", "tiled", 2e-3),
        row("matmul NN 8 8 8", "naive", 1e-3),
        row("matmul NT 8 8 8", "naive", naive_nt),
        row("attention forward 1 1 8 8", "plain", 1e-3),
    ]


def test_the_least_time_of_a_whole_micro_batch_decides() -> None:
    """naive wins the product that a step has three times; what it loses elsewhere counts too."""
    assert tune.fastest(rows(4e-3), CASES, TRIED) == {"matmul": "naive", "attention": "plain"}
    assert tune.fastest(rows(6e-3), CASES, TRIED)["matmul"] == "tiled"


def test_a_kernel_that_is_wrong_at_one_size_is_not_chosen() -> None:
    assert tune.fastest(rows(None), CASES, TRIED)["matmul"] == "tiled"
    with pytest.raises(BackendError, match="no attention kernel could be measured"):
        tune.fastest([row(r.case, r.variant, None) for r in rows(1.0)], CASES, TRIED[2:])


def test_a_models_cases_are_what_its_step_computes() -> None:
    recipe = tiny_run.recipe()
    cases = tune.model_cases(recipe.model(20), recipe.train)
    assert cases["matmul TN 8 16 24"] == 2 and cases["matmul NT 16 8 20"] == 1
    products = sum(
        json.loads(_core.GpuOp(op).plan("", 1e9, 1e9))["flops"] * count
        for op, count in cases.items()
    )
    config = _core.Config({**recipe.model(20).to_dict(), **recipe.train.to_dict()})
    assert products * recipe.train.grad_accum == _core.step_flops(config)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Sweeps that were made, by their first case; no GPU takes part."""
    made: list[str] = []

    class Info:
        handle = type("Handle", (), {"info": dict.fromkeys(
            ("vendor", "device", "description", "backend_type"), "x"
        )})  # fmt: skip
        name = "x"

    def measure(_adapter: Any, known: list[Variant], cases: Counter[str], _say: Any) -> list[Row]:
        made.append(next(iter(cases)))
        return [
            row(case, variant.name, 1e-3 if variant.name == "naive" else 2e-3)
            for case in cases
            for variant in known
        ]

    monkeypatch.setenv("TABGPT_CACHE", str(tmp_path))
    monkeypatch.setattr(tune, "find_adapter", Info)
    monkeypatch.setattr(tune, "_measure", measure)
    monkeypatch.setattr(tune, "check_gpu", lambda text: tune.Result(0.5, "loss"))
    return made


def test_a_choice_is_remembered_by_its_model(measured: list[str]) -> None:
    recipe = tiny_run.recipe()
    first = tune.tune(recipe.model(20), recipe.train)
    assert first.startswith("matmul=naive attention=")
    assert set(first.split()) <= {f"{v.family}={v.name}" for v in variants()}
    assert tune.tune(recipe.model(20), recipe.train) == first and len(measured) == 1
    tune.tune(recipe.model(21), recipe.train)
    assert len(measured) == 2


def test_a_choice_that_computes_wrong_is_refused(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_run.recipe()
    monkeypatch.setattr(tune, "check_gpu", lambda text: tune.Result(7.0, "grad:wte"))
    for _ in range(2):
        with pytest.raises(BackendError, match="compute grad:wte wrong"):
            tune.tune(recipe.model(20), recipe.train)
    assert len(measured) == 2, "it was not remembered"


def test_only_the_gpu_is_tuned() -> None:
    with pytest.raises(ConfigError, match="the backend is native: leave --tune out"):
        tabgpt.train(tiny_run.recipe(), tiny_run.corpus(), tune=True)
