"""What a case is: one operation at one size, with inputs, the oracle's answer and a bound."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bounds import Array, Arrays
from tabgpt import ops, philox
from tabgpt.ops import Dropout

SITE = (3, ops.ATTENTION_RESIDUAL)  # layer and site of the dropout stream that cases use
GELU = {"none": 0, "gelu_tanh": 1, "gelu_erf": 2}


def dropout(p: float) -> Dropout:
    """The masks of one made-up micro-batch; a seed above 2^31, to catch a signed key."""
    return Dropout(p, seed=3000000019, step=41, micro=1)


def dropout_numbers(p: float) -> list[float]:
    """The same as tabgpt_op takes it: seed, c2, c3, threshold, scale."""
    d = dropout(p)
    c3 = philox.stream(philox.DROPOUT, d.micro, *SITE)
    return [d.seed, d.step, c3, int(p * 2**32), 1 / (1 - p)]


@dataclass(frozen=True)
class Case:
    """One operation at one size; subclasses' fields are the sizes."""

    op: ClassVar[str]

    @property
    def name(self) -> str:
        fields = dataclasses.asdict(self).items()
        return self.op + "".join(f"-{key}{value}" for key, value in fields)

    def random(self) -> np.random.Generator:
        """Seeded by the name: a case's inputs do not change when another case is added."""
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    def inputs(self) -> Arrays:
        """float32 (ids uint32) by name; a name that `expected` has too is where the op adds to."""
        raise NotImplementedError

    def expected(self, x: Arrays) -> Arrays:
        """The oracle's outputs by name, from inputs in float64 (or complex)."""
        raise NotImplementedError

    def bound(self, x: Arrays, y: Arrays) -> Arrays:
        """Largest allowed |error| of each element of each output; y is `expected`."""
        raise NotImplementedError

    def call(self) -> tuple[list[float], list[str]]:
        """tabgpt_op's parameters, and its tensors by name ("" where one is absent)."""
        raise NotImplementedError

    in_place: ClassVar[dict[str, str]] = {}
    """Input that the kernel overwrites -> the output that it becomes."""
    dtype: ClassVar[type] = np.float32
    """Of the kernel's outputs."""

    variables: ClassVar[dict[str, str]] = {}
    """Output -> variable: the output is (or has added to it) primal's gradient in that variable."""

    def primal(self, x: Arrays) -> Any:
        """The scalar of x that `variables` differentiate; complex-safe."""
        raise NotImplementedError

    def flops(self) -> float:
        """Floating-point operations, for the bench's rates."""
        return 0.0

    def bytes(self) -> float:
        """Bytes that must move at least once: all inputs and outputs."""
        x = self.inputs()
        outputs = self.expected({k: widen(v) for k, v in x.items()})
        fresh = [value for name, value in outputs.items() if name not in x]
        return 4.0 * sum(a.size for a in [*x.values(), *fresh])


def widen(a: Array) -> Array:
    """float32 -> float64; ids stay."""
    return a.astype(np.float64) if a.dtype == np.float32 else a


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    return (scale * rng.standard_normal(shape)).astype(np.float32)
