"""The counted work of a GPU's step: by hand where that is short, and as the record says."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
from tabgpt.config import preset, preset_names

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import gpu_counts
import record

ROWS = {row["preset"]: row for row in record.read("gpu-counts")["results"]}


def gpu(**options: object) -> argparse.Namespace:
    return argparse.Namespace(
        **{"tflops": 10.0, "gb_s": 300.0, "dispatches": False, "variants": "", **options}
    )


def test_the_record_has_every_preset() -> None:
    assert list(ROWS) == preset_names()


@pytest.mark.parametrize("name", ROWS)
def test_the_record_is_what_the_plans_say_now(name: str) -> None:
    row = {key: value for key, value in ROWS[name].items() if key != "before"}
    now = gpu_counts.result(name, gpu(tflops=row["tflops"], gb_s=row["gb_s"]))
    assert json.loads(json.dumps(now)) == row, "run python bench/gpu_counts.py --record"


@pytest.mark.parametrize("name", preset_names())
def test_matrix_products_are_the_models(name: str) -> None:
    """2 M N K of each linear map and of the head, forward once and backward twice."""
    recipe = preset(name)
    model = recipe.model(gpu_counts.VOCABULARY)
    weights = 12 * model.n_layer * model.d_model**2 + model.vocab_size * model.d_model
    rows, _ = gpu_counts.counts(name, gpu())
    kernels = [row for row in rows if row.label.startswith("matmul")]
    products = sum(row.operations for row in kernels if row.label != "matmul_split")
    assert products == 3 * 2 * gpu_counts.tokens_a_step(name) * weights


@pytest.mark.parametrize("name", preset_names())
def test_a_step_has_few_passes(name: str) -> None:
    """At most 30 a layer and 15, those that finish a sum left out, in each micro-batch."""
    recipe = preset(name)
    (*_, step), _ = gpu_counts.counts(name, gpu())
    most = 30 * recipe.model(gpu_counts.VOCABULARY).n_layer + 15
    assert step.dispatches - step.second_passes <= recipe.train.grad_accum * most


def test_the_floor_follows_the_gpu() -> None:
    def floor(**options: float) -> float:
        return gpu_counts.counts("tiny", gpu(**options))[0][-1].floor_ms

    slow = floor()
    assert floor(tflops=5.0, gb_s=150.0) == pytest.approx(2 * slow)
    assert floor(gb_s=1e9) < slow  # a small model's step waits for memory
    by_dispatch, _ = gpu_counts.counts("tiny", gpu(dispatches=True))
    assert by_dispatch[-1].floor_ms == pytest.approx(slow)
    assert sum(row.dispatches for row in by_dispatch[:-1]) == by_dispatch[-1].dispatches


def test_tiles_of_attention_are_counted_whole() -> None:
    """64 x 64 scores instead of the causal half; the same bytes."""
    recipe = preset("nanogpt-cpu")
    assert recipe.model(gpu_counts.VOCABULARY).ctx == 64
    by_row, by_tile = (
        {row.label: row for row in gpu_counts.counts("nanogpt-cpu", gpu(variants=choice))[0]}
        for choice in ("attention=plain", "attention=flash")
    )
    for kernel in ("forward", "dq", "dkv"):
        one, other = by_row[f"attention_{kernel}"], by_tile[f"flash_{kernel}"]
        assert other.operations / one.operations == 64 * 64 / (64 * 65 / 2)
        assert (other.bytes, other.dispatches) == (one.bytes, one.dispatches)
