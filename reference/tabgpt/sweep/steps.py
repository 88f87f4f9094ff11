"""Whole training steps of the presets, by the default kernels and by the fastest of the sweep."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from ..backends import open_session
from ..backends.native import _core, core_config
from ..config import Recipe, preset, preset_names
from ..errors import BackendError
from ..gpu.check import check_gpu
from .definition import STEP_GROUP
from .stage import Row, Stage, Variant

WARM_UP_STEPS = 2
TOKENS = 20_000
"""Ids of a text long enough for every preset's window."""


def step_flops(recipe: Recipe, vocab_size: int) -> float:
    """Of one optimizer step's products."""
    return _core.step_flops(core_config(recipe.model(vocab_size), recipe.train))


def presets_by_work(vocab_size: int) -> list[str]:
    return sorted(preset_names(), key=lambda name: step_flops(preset(name), vocab_size))


def fastest_of(rows: Sequence[Row], variants: Sequence[Variant]) -> dict[str, str]:
    """By family, the kernel offered for training that is fastest over the cases that all ran."""
    fastest = {}
    for family in dict.fromkeys(variant.family for variant in variants):
        times: dict[str, dict[str, float]] = {}
        for variant in variants:
            if variant.family == family and variant.training:
                own = {row.case: row.seconds for row in rows if row.variant == variant.name}
                known = {case: seconds for case, seconds in own.items() if seconds is not None}
                if known:
                    times[variant.name] = known
        if not times:
            continue
        common = set.intersection(*(set(own) for own in times.values()))
        if common:  # a mean of logarithms, so that the largest case does not decide alone
            scores = {
                name: sum(math.log(own[case]) for case in common) for name, own in times.items()
            }
            fastest[family] = min(scores, key=scores.__getitem__)
    return fastest


def measure_step(
    stage: Stage, name: str, fastest: dict[str, str], variants: Sequence[Variant]
) -> list[Row]:
    """A row with the core's own choice of kernels, and one with `fastest` where it is another."""
    defaults = {variant.family: variant.name for variant in variants if variant.default}
    choices: list[dict[str, str]] = [{}]
    if any(defaults[family] != kernel for family, kernel in fastest.items()):
        choices.append(fastest)
    return [_measured(stage, name, names) for names in choices if not stage.is_stopped()]


def _measured(stage: Stage, name: str, names: dict[str, str]) -> Row:
    recipe, vocab_size = preset(name, schedule="constant"), stage.rules.vocab_size
    text = " ".join(f"{family}={kernel}" for family, kernel in names.items())
    row = stage.row(
        kind="step",
        case=name,
        group=STEP_GROUP,
        variant=text or "default",
        flops=step_flops(recipe, vocab_size),
        tokens=recipe.train.batch_size * recipe.train.grad_accum * recipe.model(vocab_size).ctx,
    )
    row.skipped = _obstacle(stage, row.flops)
    if row.skipped:
        return row
    try:
        if text not in stage.checks:
            stage.checks[text] = check_gpu(text).worst
        row.error = stage.checks[text] if math.isfinite(stage.checks[text]) else None
        if stage.checks[text] <= stage.rules.bounds.error:
            _time(stage, row, recipe, text)
    except BackendError as error:
        row.skipped = str(error)
    return row


def _obstacle(stage: Stage, flops: float) -> str:
    bounds = stage.rules.bounds
    if stage.adapter.software and flops > bounds.software_step_flops:
        return (
            f"not on a software adapter: {flops / 1e9:.2g} Gflop a step, at most "
            f"{bounds.software_step_flops / 1e9:.2g} Gflop there"
        )
    known = stage.rates.get(STEP_GROUP) or max(stage.rates.values(), default=0)
    if known and flops / known > bounds.most_step_s:
        return f"one step would take about {flops / known:.2g} s, at most {bounds.most_step_s:g} s"
    return ""


def _time(stage: Stage, row: Row, recipe: Recipe, variants: str) -> None:
    vocab_size = stage.rules.vocab_size
    ids = np.arange(TOKENS)
    tokens = (ids * ids + (ids >> 3)) % vocab_size
    session = open_session(
        "wgpu", recipe.model(vocab_size), recipe.train, tokens, "train", variants=variants
    )

    def steps(count: int) -> float:
        """Seconds a step of as many."""
        before = time.perf_counter()
        for _ in range(count):
            if not session.step().finite:
                raise BackendError("the loss or its gradient became infinite or NaN")
        return (time.perf_counter() - before) / count

    try:
        session.init_weights()
        best = steps(WARM_UP_STEPS)
        stage.rates[STEP_GROUP] = row.flops / best
        row.calls = max(1, math.ceil(stage.rules.timing.sample_s / best))
        for _ in range(stage.sample_count(row.calls * best)):
            if stage.is_stopped():
                return
            row.wall_s.append(steps(row.calls))
        row.ok = True
    finally:
        session.close()
