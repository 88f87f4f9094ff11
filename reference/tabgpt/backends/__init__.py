"""One small protocol for every backend: what a session can do, and how to open one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig, TrainConfig, suggestion
from ..errors import BackendError

BACKENDS = ("native", "numpy", "wgpu")


class StepMetrics(NamedTuple):
    """What one optimizer step reports; `step` counts from 0, `grad_norm` is before clipping."""

    step: int
    loss: float
    lr: float
    grad_norm: float
    finite: bool


class Session(Protocol):
    """A model with what its mode needs: "infer", "train", or "probe" to read activations too."""

    config: ModelConfig
    device: str
    """What computes, for people to read."""
    step_number: int

    def init_weights(self) -> None: ...
    def names(self) -> list[str]: ...
    def tensor(self, name: str) -> NDArray[Any]:
        """Its values, to be read alone. A CPU's session gives a view that later calls change."""

    def set(self, name: str, value: NDArray[Any]) -> None:
        """Overwrites a tensor, of the same shape."""

    def step(self) -> StepMetrics: ...
    def loss(
        self,
        tokens: NDArray[Any],
        targets: NDArray[Any],
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float: ...
    def loss_and_grads(
        self,
        tokens: NDArray[Any],
        targets: NDArray[Any],
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float:
        """Mean loss of tokens, targets [B,T]; gradients in the tensors "grad:*"."""

    def logits(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """[B,T] -> [B,T,V]."""

    def evaluate(self, split: str, n_batches: int = 0) -> float: ...
    def generate(
        self,
        prompt_ids: Sequence[int],
        temperature: float,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[int]: ...
    def memory(self) -> dict[str, int]: ...
    def close(self) -> None: ...


def check_shape(name: str, shape: Sequence[int], value: NDArray[Any]) -> None:
    """BackendError where a tensor of this shape is to be overwritten by another."""
    if tuple(shape) != np.shape(value):
        raise BackendError(f"{name} has shape {tuple(shape)}, not {np.shape(value)}")


def check_backend(name: str) -> str:
    """The name itself, or BackendError with the names there are."""
    if name not in BACKENDS:
        raise BackendError(f"unknown backend {name!r}{suggestion(name, BACKENDS)}")
    return name


def default_threads() -> int:
    """The processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def open_session(
    backend: str,
    config: ModelConfig,
    train: TrainConfig | None = None,
    tokens: NDArray[np.integer] | None = None,
    mode: str = "infer",
    threads: int | None = None,
    variants: str = "",
) -> Session:
    """A session of zeros: `init_weights()` or the caller fills it. tokens: the corpus (N,).

    variants: the GPU kernels to use, "matmul=naive attention=plain"; of the wgpu backend alone.
    """
    check_backend(backend)
    if threads is not None and not (isinstance(threads, int | np.integer) and 1 <= threads <= 1024):
        raise BackendError(f"threads is {threads!r}; it must be from 1 to 1024, a whole number")
    if backend == "numpy":
        from .numpy import NumpySession

        return NumpySession(config, train, tokens, mode)
    if backend == "wgpu":
        from .wgpu import WgpuSession

        return WgpuSession(config, train, tokens, mode, variants)
    from .native import NativeSession

    return NativeSession(config, train, tokens, mode, threads or default_threads())
