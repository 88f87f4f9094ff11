"""One case of the sweep: each kernel on the same inputs, checked, timed in turns, checked again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.native import _core, core_errors
from ..errors import BackendError
from ..gpu.adapter import BINDING, BUFFER
from ..gpu.clock import Times
from ..gpu.executor import Executor
from .definition import Case
from .stage import PLAIN, Row, Stage, Variant, disagree

MOST_BYTES = 512 << 20
"""On the GPU at a time; kernels that do not fit together take no turns with each other."""
MOST_CALLS = 4096
"""In one submit."""
RETRIES = 3
"""Timestamps that run backwards are taken again this often."""


@dataclass
class Candidate:
    """A variant that can be tried: its row, the core's text for it, and its plan."""

    row: Row
    choice: str
    plan: dict[str, Any]

    @property
    def bytes(self) -> int:
        return sum(buffer["bytes"] for buffer in self.plan["buffers"])


def measure_case(stage: Stage, case: Case, tried: list[Variant]) -> list[Row]:
    """A row for each of `tried`, which are of the case's family."""
    with core_errors():
        op = _core.GpuOp(case.op)
    planned = [_planned(stage, op, case, variant) for variant in tried]
    fitting = [each for each in planned if isinstance(each, Candidate)]
    for together in _batches(fitting):
        if not stage.is_stopped():
            _measure_together(stage, op, together)
    return [each.row if isinstance(each, Candidate) else each for each in planned]


def _planned(stage: Stage, op: _core.GpuOp, case: Case, variant: Variant) -> Candidate | Row:
    row = stage.row(kind="kernel", case=case.op, group=case.group, variant=variant.name)
    if variant.feature and variant.feature not in stage.features:
        row.skipped = f"this GPU has no {variant.feature}"
        return row
    choice = stage.choice({case.family: variant.name})
    try:
        with core_errors():
            plan = json.loads(op.plan(choice, stage.limits[BINDING], stage.limits[BUFFER]))
    except BackendError as error:
        row.skipped = str(error)
        return row
    row.flops, row.bytes = plan["flops"], plan["bytes"]
    row.skipped = stage.too_long(row.flops, variant.name, *PLAIN)
    return row if row.skipped else Candidate(row, choice, plan)


def _batches(candidates: list[Candidate]) -> Iterator[list[Candidate]]:
    batch: list[Candidate] = []
    for candidate in candidates:
        if batch and sum(each.bytes for each in [*batch, candidate]) > MOST_BYTES:
            yield batch
            batch = []
        batch.append(candidate)
    if batch:
        yield batch


class Side:
    """A candidate on the device, with its samples."""

    def __init__(self, stage: Stage, op: _core.GpuOp, candidate: Candidate) -> None:
        self._stage, self._op = stage, op
        self.row, self.choice, self._plan = candidate.row, candidate.choice, candidate.plan
        self.calls, self.best = 1, math.inf
        self.gpu: list[float] = []
        self.wall: list[float] = []
        self.executor = Executor(self._plan, stage.device, owns_device=False)
        try:
            for name in self._plan["inputs"]:
                values = np.empty(self.executor.tensors[name]["shape"], np.float32)
                with core_errors():
                    op.input(name, values)
                self.executor.write(name, values)
            self.executor.run("prepare", "run")
        except BaseException:
            self.executor.close()
            raise

    def is_right(self) -> bool:
        """Judges the results that lie on the device now."""
        worst = 0.0
        for name in self._plan["results"]:
            with core_errors():
                worst = max(worst, self._op.check(self.choice, name, self.executor.read(name)))
        self.row.error = worst if math.isfinite(worst) else None
        self.row.ok = worst <= self._stage.rules.bounds.error
        return self.row.ok

    def _take(self, calls: int) -> Times:
        times = self._stage.clock.time(self.executor, "run", calls)
        self.best = min(self.best, _duration(times) / calls)
        return times

    def _least(self) -> float:
        timing = self._stage.rules.timing
        return max(timing.least_sample_s, timing.least_quanta * self._stage.clock.quantum)

    def warm_up(self) -> None:
        """One call, then more and more of them until the warm-up's time is over."""
        timing = self._stage.rules.timing
        left, calls = timing.warm_up_s, 1
        while True:
            left -= self._take(calls).wall
            if left <= 0:
                break
            calls = max(1, min(2 * calls, MOST_CALLS, math.ceil(left / self.best)))
        wanted = 1.2 * max(timing.sample_s, self._least()) / self.best
        self.calls = min(MOST_CALLS, max(1, math.ceil(wanted)))

    def sample(self) -> None:
        """Adds one sample; one too short for its clock is taken again with more calls."""
        retries = RETRIES
        while True:
            times = self._take(self.calls)
            if self._stage.clock.has_stamps and times.gpu is None and retries > 0:
                retries -= 1
                continue
            if self.calls < MOST_CALLS and _duration(times) < self._least():
                self.calls = min(2 * self.calls, MOST_CALLS)
                continue
            if times.gpu is not None:
                self.gpu.append(times.gpu / self.calls)
            self.wall.append(times.wall / self.calls)
            return

    @property
    def rounds(self) -> int:
        return self._stage.sample_count(self.calls * self.best)


def _duration(times: Times) -> float:
    return times.wall if times.gpu is None else times.gpu


def _opened(stage: Stage, op: _core.GpuOp, candidate: Candidate) -> Side | None:
    """On the device and right; None where it cannot run here or is wrong, which its row says."""
    try:
        side = Side(stage, op, candidate)
    except BackendError as error:
        candidate.row.skipped = str(error)
        return None
    if side.is_right():
        return side
    side.executor.close()
    return None


def _measure_together(stage: Stage, op: _core.GpuOp, candidates: list[Candidate]) -> None:
    sides: list[Side] = []
    try:
        for candidate in candidates:
            if stage.is_stopped():
                return
            side = _opened(stage, op, candidate)
            if side is not None:
                sides.append(side)
        _take_turns(stage, sides)
        for side in sides:
            if stage.is_stopped() or not side.is_right():
                continue
            row = side.row
            row.calls, row.gpu_s, row.wall_s = side.calls, side.gpu, side.wall
            row.disagree = disagree(side.gpu, side.wall, stage.rules.bounds.clocks_factor)
    finally:
        for side in sides:
            side.executor.close()


def _take_turns(stage: Stage, sides: list[Side]) -> None:
    """Rounds from either end, so that a drift of the machine's speed hits all alike."""
    for side in sides:
        if stage.is_stopped():
            return
        side.warm_up()
        stage.rates[side.row.variant] = side.row.flops / side.best
    for turn in range(max((side.rounds for side in sides), default=0)):
        for side in sides if turn % 2 == 0 else reversed(sides):
            if stage.is_stopped():
                return
            if turn < side.rounds:
                side.sample()
