"""What every measurement of a sweep shares, and what one leaves behind: a row."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..backends.native import _core
from ..gpu.adapter import BINDING, BUFFER, Adapter
from ..gpu.clock import FEATURE, Clock
from .definition import Definition

PLAIN = ("naive", "plain")
"""The kernels that others are measured against."""


@dataclass(frozen=True)
class Variant:
    """A kernel that a plan may choose; the core has the list."""

    family: str
    name: str
    feature: str
    training: bool
    default: bool


def variants() -> list[Variant]:
    return [Variant(**entry) for entry in json.loads(_core.gpu_variants())]


@dataclass
class Row:
    """One kernel at one size, or one training step of a preset. A record holds it as it is."""

    kind: str
    case: str
    group: str
    variant: str
    software: bool
    skipped: str = ""
    """Why it was not measured."""
    ok: bool = False
    """Its results were within their bound before and after it was timed."""
    error: float | None = None
    """Largest error as a share of the bound; None where it is not finite, or nothing ran."""
    flops: float = 0
    bytes: float = 0
    """Of one call."""
    calls: int = 0
    """In a sample."""
    gpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    """Seconds a call, one a sample, by the GPU's timestamps and by the wall clock."""
    disagree: bool = False
    """The two clocks differ by more than the rule allows."""
    tokens: int | None = None
    """Of a training step."""

    @property
    def seconds(self) -> float | None:
        """Of a call: the GPU's own where it told them; None where nothing may be shown."""
        samples = self.gpu_s or self.wall_s
        return statistics.median(samples) if self.ok and samples else None

    @property
    def rate(self) -> float | None:
        """Floating-point operations a second."""
        return self.flops / self.seconds if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """As a record has it."""
        values = asdict(self)
        if self.tokens is None:
            del values["tokens"]
        return values


def disagree(gpu: Sequence[float], wall: Sequence[float], factor: float) -> bool:
    """Whether timestamps and the wall clock tell stories that differ by `factor`."""
    if not gpu or not wall:
        return False
    a, b = statistics.median(gpu), statistics.median(wall)
    return max(a, b) >= factor * min(a, b)


class Stage:
    """An open device, its clock, the rules, and what was learnt of each kernel's speed."""

    def __init__(
        self, adapter: Adapter, rules: Definition, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self.adapter = adapter
        self.rules = rules
        self.is_stopped = is_stopped
        needed = {variant.feature for variant in variants()} | {FEATURE}
        self.features = sorted(needed & adapter.features)
        self.limits = {name: adapter.limit(name) for name in (BINDING, BUFFER)}
        self.device = adapter.device(self.limits, self.features)
        self.clock = Clock(self.device)
        self.rates: dict[str, float] = {}
        """Operations a second that a kernel reached last, by its name."""
        self.checks: dict[str, float] = {}
        """Largest error of a whole step, by the choice of kernels."""

    def choice(self, names: dict[str, str]) -> str:
        """Kernels by family as the core reads them, on this device."""
        words = [f"{family}={name}" for family, name in names.items()]
        return self.adapter.told(" ".join(words), self.features)

    def row(self, **named: Any) -> Row:
        return Row(software=self.adapter.software, **named)

    def predicted(self, flops: float, *names: str) -> float | None:
        """Seconds that a call is going to take, by what is known of such kernels."""
        known = [self.rates[name] for name in names if name in self.rates]
        return flops / known[0] if known else None

    def too_long(self, flops: float, *names: str) -> str:
        """Why a call is not to be made at all; "" where it may."""
        bounds, software = self.rules.bounds, self.adapter.software
        if software and flops > bounds.software_flops:
            return (
                f"not on a software adapter: {flops / 1e9:.2g} Gflop a call, at most "
                f"{bounds.software_flops / 1e9:.2g} Gflop there"
            )
        most = bounds.software_call_s if software else bounds.most_call_s
        time = self.predicted(flops, *names)
        if time is None or time <= most:
            return ""
        return f"one call would take about {time:.2g} s, at most {most:g} s"

    def sample_count(self, seconds: float) -> int:
        """How many samples of this length the rules have time for."""
        bounds, timing = self.rules.bounds, self.rules.timing
        fitting = int(bounds.most_row_s / max(seconds, 1e-9))
        return max(min(bounds.least_samples, timing.samples), min(timing.samples, fitting))

    def close(self) -> None:
        self.clock.destroy()
        self.device.destroy()
