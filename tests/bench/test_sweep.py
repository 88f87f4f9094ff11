"""sweep.json: every case opens, and the training shapes are there each way."""

from __future__ import annotations

from tabgpt import _core
from tabgpt.config import preset_names
from tabgpt.sweep.definition import definition
from tabgpt.sweep.run import Selection

RULES = definition()
SHAPES = [(768, 128, 384), (768, 128, 512), (768, 512, 128), (1536, 96, 384), (1536, 256, 1024)]


def test_every_case_is_an_operation_of_a_group() -> None:
    assert len({case.op for case in RULES.cases}) == len(RULES.cases)
    for case in RULES.cases:
        _core.GpuOp(case.op)
        assert case.group in RULES.groups


def test_training_shapes_are_measured_each_way() -> None:
    ops = {case.op for case in RULES.cases}
    for M, K, N in SHAPES:
        assert {
            f"matmul NN {M} {K} {N}",
            f"matmul NT {M} {N} {K}",
            f"matmul TN {K} {M} {N}",
        } <= ops
    for length in (128, 256, 512, 1024, 2048, 4096):
        for way in ("forward", "backward"):
            assert f"attention {way} 1 6 {length} 64" in ops


def test_a_selection_takes_what_it_names() -> None:
    cubes = Selection(groups=["cube"], most=256)
    assert [case.op for case in cubes.cases_of(RULES)] == [
        "matmul NN 128 128 128",
        "matmul NN 256 256 256",
    ]
    assert len(Selection(groups=["training"]).cases_of(RULES)) > 3 * len(SHAPES)
    assert cubes.presets_of(RULES) == []
    steps = Selection(groups=["step"])
    assert steps.cases_of(RULES) == [] and set(steps.presets_of(RULES)) == set(preset_names())
    named = Selection(cases=["TN 96 1536 384"], kernels=["naive"])
    assert [case.size for case in named.cases_of(RULES)] == [384]
    assert {variant.name for variant in named.variants()} == {"naive"}
