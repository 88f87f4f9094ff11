"""The kernels that train one model fastest on one GPU: the sweep's measurement at its own sizes.

A choice holds only once a whole step with it agrees with the native core; it is remembered
by the adapter, the model's sizes and the kernels that there were to choose from.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..config import ModelConfig, TrainConfig
from ..corpus import cache_folder
from ..errors import BackendError
from ..gpu.adapter import Adapter, find_adapter
from ..gpu.check import Result, check_gpu
from .definition import Case, definition
from .kernels import measure_case
from .stage import Row, Stage, Variant, variants

MEMORY = "gpu-kernels.json"
GROUP = "model"
NOT_ALONE = "shader-f16"
"""What rounds to half precision is for those who ask for it by name."""


def model_cases(model: ModelConfig, train: TrainConfig) -> Counter[str]:
    """The products and the attention of one micro-batch, both ways, and how often each occurs."""
    rows, C, V = train.batch_size * model.ctx, model.d_model, model.vocab_size
    cases: Counter[str] = Counter()
    for a, b in ((C, 3 * C), (C, C), (C, model.d_mlp), (model.d_mlp, C)):
        for op in (f"NN {rows} {a} {b}", f"NT {rows} {b} {a}", f"TN {a} {rows} {b}"):
            cases[f"matmul {op}"] += model.n_layer
    for op in (f"NT {rows} {C} {V}", f"NN {rows} {V} {C}", f"TN {V} {rows} {C}"):
        cases[f"matmul {op}"] += 1
    sizes = f"{train.batch_size} {model.n_head} {model.ctx} {C // model.n_head}"
    for way in ("forward", "backward"):
        cases[f"attention {way} {sizes}"] += model.n_layer
    return cases


def fastest(rows: Sequence[Row], cases: Counter[str], tried: Sequence[Variant]) -> dict[str, str]:
    """By family, the least time of a micro-batch; BackendError where no kernel ran all of it."""
    times = {(row.case, row.variant): row.seconds for row in rows if row.seconds is not None}

    def total(variant: Variant) -> float:
        own = (case for case in cases if Case(case, GROUP).family == variant.family)
        return sum(cases[case] * times.get((case, variant.name), math.inf) for case in own)

    choice = {}
    for family in dict.fromkeys(variant.family for variant in tried):
        best = min((v for v in tried if v.family == family), key=total)
        if not math.isfinite(total(best)):
            failed = next(row for row in rows if row.variant == best.name and row.seconds is None)
            why = failed.skipped or "its result is wrong"
            raise BackendError(
                f"no {family} kernel could be measured at this model's sizes "
                f"({failed.case}: {why}); train without --tune"
            )
        choice[family] = best.name
    return choice


def tune(
    model: ModelConfig, train: TrainConfig, say: Callable[[str], None] = lambda _: None
) -> str:
    """The text of `variants` for open_session; measured once, then remembered."""
    adapter = find_adapter()
    known = [v for v in variants() if v.training and v.feature != NOT_ALONE]
    cases = model_cases(model, train)
    key = _key(adapter, known, cases)
    remembered = _memory().get(key)
    if remembered is not None:
        say(f"kernels for this GPU, as measured before: {remembered}")
        return remembered
    rows = _measure(adapter, known, cases, say)
    text = " ".join(f"{family}={name}" for family, name in fastest(rows, cases, known).items())
    result: Result = check_gpu(text)
    if not result.ok:
        raise BackendError(
            f"the fastest kernels here ({text}) compute {result.name} wrong on {adapter.name}: "
            f"{result.worst:.3g} times its bound; train without --tune"
        )
    _remember(key, text)
    say(f"kernels for this GPU: {text}")
    return text


def _measure(
    adapter: Adapter, known: list[Variant], cases: Counter[str], say: Callable[[str], None]
) -> list[Row]:
    rules = definition()
    short = replace(rules.timing, warm_up_s=0.02, samples=3, sample_s=0.005)
    stage = Stage(adapter, replace(rules, timing=short))
    rows: list[Row] = []
    try:
        for number, op in enumerate(cases):
            say(f"tuning {number + 1}/{len(cases)}: {op}")
            case = Case(op, GROUP)
            rows += measure_case(stage, case, [v for v in known if v.family == case.family])
    finally:
        stage.close()
    return rows


def _key(adapter: Adapter, known: Sequence[Variant], cases: Counter[str]) -> str:
    info = adapter.handle.info
    identity = [str(info[name]) for name in ("vendor", "device", "description", "backend_type")]
    names = [f"{variant.family}={variant.name}" for variant in known]
    return " | ".join([*identity, " ".join(names), ", ".join(sorted(cases))])


def _file() -> Path:
    return cache_folder() / MEMORY


def _memory() -> dict[str, str]:
    """By key; empty where the file is not there or not whole."""
    try:
        memory = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return memory if isinstance(memory, dict) else {}


def _remember(key: str, text: str) -> None:
    """A disk that is full or read-only costs the next run its measurement, no more."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        whole = json.dumps(_memory() | {key: text}, indent=1) + "\n"
        new = _file().with_suffix(".new")
        new.write_text(whole, encoding="utf-8")
        new.replace(_file())
    except OSError:
        return
