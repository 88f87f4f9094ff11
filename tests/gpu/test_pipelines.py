"""The pipelines that the core's plans ask for: compiled without a word, and covered by parity."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from functools import cache

import gpu_variants
import pytest
from gpu_cases import GPU_CASES
from kernel_calls import calls
from kernel_runner import Kernels
from remote import CoreError
from tabgpt import _core, shaders
from tabgpt.config import ModelConfig, TrainConfig

Pipeline = tuple[str, tuple[tuple[str, int], ...]]


def normal(kernel: str, constants: dict[str, int]) -> Pipeline:
    """Constants that are 0 are left out: 0 is the default, but for GELU where there is no other."""
    return kernel, tuple(sorted((k, v) for k, v in constants.items() if v))


@cache
def planned() -> list[Pipeline]:
    """Of every mode, product, activation, with and without dropout, one head chunk and several."""
    found = set()
    options = itertools.product(
        (0.0, 0.1),
        ("gelu_tanh", "gelu_erf"),
        ("infer", "train", "probe"),
        gpu_variants.TRAINED,
        ((65, 4, 32), (5003, 64, 64)),
    )
    for dropout, activation, mode, variants, (vocab, batch, ctx) in options:
        sizes = {"vocab_size": vocab, "ctx": ctx, "n_layer": 2, "n_head": 2, "d_model": 16}
        model = ModelConfig(**sizes, d_mlp=0, dropout=dropout, activation=activation)
        config = asdict(model) | asdict(TrainConfig(batch_size=batch, grad_accum=2))
        gpu = _core.Gpu(_core.Config(config), mode, 2.0**27, 2.0**28, variants)
        for pipeline in json.loads(gpu.plan())["pipelines"]:
            shaders.check_access(shaders.kernel(pipeline["kernel"]), pipeline["bindings"])
            found.add(normal(pipeline["kernel"], pipeline["constants"]))
    return sorted(found)


@cache
def run_by_parity() -> set[Pipeline]:
    return {
        normal(dispatch.kernel, dict(dispatch.constants))
        for case in GPU_CASES
        for call in calls(case)
        for dispatch in call.dispatches
    }


ELSEWHERE = {"kv_store", "sum_losses"}  # test_kernel_rules.py


def test_parity_covers_what_plans_run() -> None:
    uncovered = [p for p in planned() if p not in run_by_parity() and p[0] not in ELSEWHERE]
    assert not uncovered


NOT_TRAINED = {
    *("matmul_subgroup", "matmul_f16"),  # which not every device has
    *("matmul_blocked8", "matmul_tiled_f16", "matmul_f16_packed", "pack_f16"),
}


def test_every_kernel_is_in_a_plan() -> None:
    """Or is known not to be in one of training."""
    assert {kernel for kernel, _ in planned()} == set(shaders.names()) - NOT_TRAINED


def test_every_planned_pipeline_compiles_without_a_word(kernels: Kernels) -> None:
    for kernel, constants in planned():
        kernels.compile(shaders.kernel(kernel), dict(constants))


def test_a_compilers_words_are_an_error(processes) -> None:
    code = shaders.kernel("norm").code + "fn remark() { return; return; }\n"
    with pytest.raises(CoreError, match=r"warning, line .* unreachable"):
        processes("tint").compile(shaders.read("norm", code), {})
