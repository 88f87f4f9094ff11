"""What the measuring scripts share: how much to measure, and the way from there to a record."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pairs
import record
from tabgpt.config import Recipe, preset


@dataclass(frozen=True)
class Effort:
    """How long to measure, and whether to measure at all or only to show that a script works."""

    rounds: int
    sample_s: float = 0.1
    quick: bool = False

    def recipe(self, name: str) -> Recipe:
        """A preset, at a constant rate: every step does the same work."""
        smaller = TINY if self.quick else {}
        return preset(name, schedule="constant", warmup_steps=0, **smaller)


TINY = {"n_layer": 1, "n_head": 2, "d_model": 8, "ctx": 32, "batch_size": 2}
QUICK = Effort(rounds=2, sample_s=1e-3, quick=True)
"""Seconds; its figures mean nothing."""


@dataclass(frozen=True)
class Outcome:
    """What a script measured, and whether the same run showed that all sides did the same."""

    results: list[dict[str, Any]]
    ok: bool
    why: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    """The browser, where there was one."""
    clock: Mapping[str, Any] | None = None
    """Of a kernel sweep."""


def run(what: str, doc: str | None, full: Effort, measure: Callable[[Effort], Outcome]) -> None:
    """A script's main: measures and writes the record, or with --quick only shows that it works.

    SystemExit with the verdict's sentence where the sides did not do the same.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no record")
    parser.add_argument(
        "--rounds", type=int, default=full.rounds, help=f"{full.rounds} unless told"
    )
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    if arguments.quick:
        pairs.WARM_UP_S = 0.01
    effort = QUICK if arguments.quick else replace(full, rounds=arguments.rounds)
    outcome = measure(effort)
    print(outcome.why, flush=True)
    if not (arguments.quick or arguments.dry):
        record.write(
            what,
            f"python bench/{what.replace('-', '_')}.py",
            outcome.results,
            ok=outcome.ok,
            why=outcome.why,
            clock=outcome.clock,
            **outcome.machine,
        )
    if not outcome.ok:
        raise SystemExit(1)


def shown(ratio: Mapping[str, float]) -> str:
    """A ratio with its quartiles, for the terminal."""
    return f"{ratio['median']:.3f} ({ratio['q1']:.3f} to {ratio['q3']:.3f})"


def worst(values: Iterable[float]) -> float:
    """The largest; NaN where one is."""
    return float(np.max(list(values)))


def relative(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Largest relative difference of two series of losses; NaN where one is."""
    return worst(abs(a / b - 1) for a, b in zip(losses, expected, strict=True))
