"""What is measured and how: sweep.json, which the page reads too."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "sweep.json"


@dataclass(frozen=True)
class Timing:
    """A sample lasts sample_s, and at least least_sample_s and least_quanta steps of its clock."""

    warm_up_s: float
    samples: int
    sample_s: float
    least_sample_s: float
    least_quanta: float


@dataclass(frozen=True)
class Bounds:
    """What is right (error), what is suspicious (clocks_factor), and what is not even tried."""

    error: float
    clocks_factor: float
    most_call_s: float
    most_row_s: float
    least_samples: int
    most_step_s: float
    software_call_s: float
    software_flops: float
    software_step_flops: float


@dataclass(frozen=True)
class Case:
    """`op` as the core opens it: "matmul NN M K N", "attention forward B H T D"."""

    op: str
    group: str

    @property
    def family(self) -> str:
        """Whose kernels run it: matmul, attention."""
        return self.op.partition(" ")[0]

    @property
    def size(self) -> int:
        """The edge of the cube with as much work, or the context."""
        sizes = [int(word) for word in self.op.split()[2:]]
        return sizes[2] if self.family == "attention" else round(math.prod(sizes) ** (1 / 3))


@dataclass(frozen=True)
class Definition:
    timing: Timing
    bounds: Bounds
    groups: dict[str, str]
    cases: tuple[Case, ...]
    vocab_size: int


def definition() -> Definition:
    """The whole of sweep.json."""
    file: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return Definition(
        Timing(**file["timing"]),
        Bounds(**file["bounds"]),
        file["groups"],
        tuple(Case(**case) for case in file["cases"]),
        file["vocab_size"],
    )


STEP_GROUP = "step"

QUICK = Timing(warm_up_s=0.01, samples=3, sample_s=0.001, least_sample_s=0.001, least_quanta=20)
"""To see that all works; the figures mean little."""
