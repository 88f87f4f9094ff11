"""The sweep from its first case to its last: small ones first, so what is slow is known in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..errors import ConfigError
from .definition import QUICK, STEP_GROUP, Case, Definition, definition
from .kernels import measure_case
from .stage import Row, Stage, Variant, variants
from .steps import fastest_of, measure_step, presets_by_work


@dataclass(frozen=True)
class Selection:
    """What of sweep.json to measure; empty lists are all."""

    groups: Sequence[str] = ()
    cases: Sequence[str] = ()
    """Parts of their names, or of presets'."""
    kernels: Sequence[str] = ()
    most: int = 4096
    """Largest Case.size."""
    experimental: bool = False
    """Kernels too that are never offered for training."""
    quick: bool = False
    extra: Sequence[Case] = field(default_factory=tuple)

    def rules(self) -> Definition:
        rules = definition()
        return replace(rules, timing=QUICK) if self.quick else rules

    def cases_of(self, rules: Definition) -> list[Case]:
        """ConfigError for a group that there is not."""
        for group in self.groups:
            if group not in rules.groups:
                raise ConfigError(f"unknown group {group!r}; there are {', '.join(rules.groups)}")
        return [
            case
            for case in (*rules.cases, *self.extra)
            if (not self.groups or case.group in self.groups)
            and self._is_named(case.op)
            and case.size <= self.most
        ]

    def presets_of(self, rules: Definition) -> list[str]:
        if self.groups and STEP_GROUP not in self.groups:
            return []
        return [name for name in presets_by_work(rules.vocab_size) if self._is_named(name)]

    def _is_named(self, name: str) -> bool:
        return not self.cases or any(part in name for part in self.cases)

    def variants(self) -> list[Variant]:
        """ConfigError for a kernel that there is not."""
        known = variants()
        for name in self.kernels:
            if name not in {variant.name for variant in known}:
                names = ", ".join(variant.name for variant in known)
                raise ConfigError(f"unknown kernel {name!r}; there are {names}")
        return [
            variant
            for variant in known
            if (
                variant.name in self.kernels
                if self.kernels
                else variant.training or self.experimental
            )
        ]


def run(
    stage: Stage,
    selection: Selection,
    begin: Callable[[str, int, int], None] = lambda *_: None,
    done: Callable[[list[Row]], None] = lambda _: None,
) -> list[Row]:
    """Every row; `begin` hears of a case, its number and how many there are, `done` of its rows."""
    tried = selection.variants()
    cases, presets = selection.cases_of(stage.rules), selection.presets_of(stage.rules)
    total = len(cases) + len(presets)
    rows: list[Row] = []
    for number, case in enumerate(cases):
        if stage.is_stopped():
            return rows
        begin(case.op, number, total)
        new = measure_case(stage, case, [v for v in tried if v.family == case.family])
        rows += new
        done(new)
    for number, name in enumerate(presets, len(cases)):
        if stage.is_stopped():
            return rows
        begin(name, number, total)
        new = measure_step(stage, name, fastest_of(rows, tried), tried)
        rows += new
        done(new)
    return rows
