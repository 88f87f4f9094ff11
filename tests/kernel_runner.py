"""Single kernels of shaders/ with named tensors, by either compiler, in a process that may crash.

A `Dispatch` is one line of a plan: kernel, constants, parameter words, tensors by
binding, grid. What the tests say with it is independent of the core's plans.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import vulkan
from bounds import Arrays
from remote import NODE, ROOT, Remote
from tabgpt import shaders
from tabgpt.shaders import Kernel

Grid = tuple[int, int, int]
COMPILERS = ("naga", "tint")
MAX_GROUPS = 65535  # in one dimension
STEP = ("seed", "step", "micro", "train", "position", "loss_scale", "keep", "rate", "root2")
STEP_FLOATS = STEP.index("loss_scale")


def folded(groups: int, most: int = MAX_GROUPS) -> Grid:
    """A linear count of workgroups as a grid that no dimension is too long in."""
    x = min(groups, most)
    return x, -(-groups // x), 1


def elements(n: int, width: int = 256) -> Grid:
    """A thread an element."""
    return folded(-(-n // width))


@dataclass(frozen=True)
class Dispatch:
    kernel: str
    grid: Grid
    params: Mapping[str, float]
    tensors: Mapping[str, str]
    """Binding -> tensor; the uniforms p and step are made of params and step."""
    constants: Mapping[str, int] = field(default_factory=dict)
    step: Mapping[str, float] = field(default_factory=dict)
    code: str = ""
    """WGSL of a test's own (which may include), instead of a kernel of shaders/."""

    def declared(self) -> Kernel:
        if self.code:
            return shaders.read(self.kernel, shaders.expand(self.code))
        return shaders.kernel(self.kernel)


def param_words(kernel: Kernel, params: Mapping[str, float]) -> np.ndarray:
    """The uniform `p`; every word must be given, and none that it has not."""
    if set(params) != {name for name, _ in kernel.params}:
        raise ValueError(f"{kernel.name} takes {kernel.params}, not {sorted(params)}")
    kinds = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}
    words = [kinds[kind](params[name]).tobytes() for name, kind in kernel.params]
    return np.frombuffer(b"".join(words), np.uint32)


def step_words(step: Mapping[str, float]) -> np.ndarray:
    """The uniform `step` (step.wgsl); what is not given is 0."""
    if unknown := set(step) - set(STEP):
        raise ValueError(f"step has no {sorted(unknown)}")
    kinds = [np.uint32] * STEP_FLOATS + [np.float32] * (len(STEP) - STEP_FLOATS)
    words = [kind(step.get(name, 0)).tobytes() for name, kind in zip(STEP, kinds, strict=True)]
    return np.frombuffer(b"".join(words), np.uint32)


class Kernels(Remote):
    """A process with a device, by compiler: naga is wgpu-py, tint is Dawn in Node."""

    def __init__(self, compiler: str) -> None:
        self.name = compiler
        alone = ["-S"] if sys.flags.no_site else []  # as tests/mutations.py runs its copies
        worker_ts = str(ROOT / "tests/kernel_worker.ts")
        workers = {  # Dawn prints what Tint says to standard output
            "naga": [sys.executable, *alone, str(ROOT / "tests/kernel_worker.py")],
            "tint": ["sh", "-c", 'WIRE=3 exec "$@" 3>&1 1>&2', "sh", str(NODE), worker_ts],
        }
        # Kept for the day it dies; wgpu-native remarks on a missing display at each start.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, open as long as the process
        self._process = subprocess.Popen(
            workers[compiler],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **vulkan.environment()},
            cwd=ROOT,
        )

    def _last_words(self) -> str:
        self._errors.seek(0)
        return ": " + self._errors.read().decode(errors="replace")[-2000:].strip()

    @cached_property
    def features(self) -> frozenset[str]:
        """Of what kernels may need, what the device has; in WebGPU's words."""
        return frozenset(self("features"))

    def takes(self, dispatches: Sequence[Dispatch]) -> bool:
        """Whether it has the features for all of them."""
        needed = {name for dispatch in dispatches for name in dispatch.declared().extensions}
        return {shaders.FEATURES[name] for name in needed} <= self.features

    def _text(self, kernel: Kernel) -> str:
        return kernel.code if self.name == "naga" else kernel.for_tint()

    def compile(self, kernel: Kernel, constants: Mapping[str, int]) -> None:
        """CoreError with the compiler's words; those of Tint are warnings too."""
        bindings = [(mode, 0) for _, mode in kernel.bindings]
        self("compile", code=self._text(kernel), constants=dict(sorted(constants.items())),
             bindings=bindings, grid=(1, 1, 1))  # fmt: skip

    def run(
        self, tensors: Arrays, dispatches: Sequence[Dispatch], outputs: Sequence[str]
    ) -> Arrays:
        """The tensors named in `outputs` after all dispatches, shaped and typed as given."""
        arrays, places = list(tensors.values()), {name: i for i, name in enumerate(tensors)}
        calls: list[dict[str, Any]] = []
        for dispatch in dispatches:
            kernel = dispatch.declared()
            words = {"p": param_words(kernel, dispatch.params), "step": step_words(dispatch.step)}
            bindings: list[tuple[str, int]] = []
            for name, mode in kernel.bindings:
                if mode == "uniform":
                    bindings.append((mode, len(arrays)))
                    arrays.append(words[name])
                else:
                    bindings.append((mode, places[dispatch.tensors[name]]))
            constants = dict(sorted(dispatch.constants.items()))
            calls.append({"code": self._text(kernel), "constants": constants, "bindings": bindings,
                          "grid": dispatch.grid})  # fmt: skip
        wanted = [(places[name], tensors[name].nbytes) for name in outputs]
        got = self("run", arrays, dispatches=calls, outputs=wanted)
        return {
            name: value.view(tensors[name].dtype).reshape(tensors[name].shape)
            for name, value in zip(outputs, got, strict=True)
        }


def unwritten(*shape: int) -> np.ndarray:
    """NaN: an element that a kernel leaves out is seen."""
    return np.full(shape, np.nan, np.float32)
