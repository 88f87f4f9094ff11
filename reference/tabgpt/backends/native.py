"""The C++ core as a backend: float32, threaded, the same source as the browser's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import batches
from ..config import ModelConfig, TrainConfig
from ..errors import BackendError
from . import StepMetrics, check_shape

try:
    from .. import _core as _core
except ImportError as error:
    raise BackendError(
        f"the native backend is not built ({error}): install the package with `pip install .`, "
        f'which needs a C++20 compiler, or use the backend "numpy"'
    ) from None

Array = NDArray[Any]


@contextmanager
def core_errors() -> Iterator[None]:
    """The core's errors join the package's one family."""
    try:
        yield
    except _core.TabgptError as error:
        raise BackendError(str(error)) from None


def core_config(config: ModelConfig, train: TrainConfig | None = None) -> _core.Config:
    """Both configs as the core takes them: one flat set of fields."""
    with core_errors():
        return _core.Config({**config.to_dict(), **(train or TrainConfig()).to_dict()})


UNLIMITED = 1 << 50
"""Bytes of a buffer that no model needs."""


def planned_memory(
    config: ModelConfig, train: TrainConfig | None, mode: str, threads: int
) -> dict[str, int]:
    """Bytes by role, and "total", that a session will hold, without the corpus's tokens."""
    with core_errors():
        return _core.memory(core_config(config, train), mode, threads, 0)


def planned_gpu_memory(config: ModelConfig, train: TrainConfig | None, mode: str) -> dict[str, int]:
    """The same of a session on a GPU that has room for it; no GPU is needed to ask."""
    with core_errors():
        return _core.Gpu(core_config(config, train), mode, UNLIMITED, UNLIMITED).memory()


class NativeSession:
    """The protocol of `backends` over `tabgpt._core`; tensors are views of the core's memory."""

    def __init__(
        self,
        config: ModelConfig,
        train: TrainConfig | None = None,
        tokens: NDArray[np.integer] | None = None,
        mode: str = "infer",
        threads: int = 1,
    ) -> None:
        self.config = config
        self.mode = mode
        self._core_config = core_config(config, train)
        self._n_tokens = 0
        self.device = f"{threads} thread{'s' if threads > 1 else ''}, {_core.isa()}"
        with core_errors():
            self._core = _core.Session(self._core_config, mode, threads)
            if tokens is not None:
                batches.split(tokens, config.ctx)
                self._core.set_tokens(tokens)
                self._n_tokens = len(tokens)

    @property
    def step_number(self) -> int:
        return int(self._core.step_number)

    @step_number.setter
    def step_number(self, step: int) -> None:
        with core_errors():
            self._core.step_number = step

    def init_weights(self) -> None:
        """The starting weights of the config's seed; step 0, moments zero."""
        with core_errors():
            self._core.init_weights()

    def names(self) -> list[str]:
        with core_errors():
            return self._core.names()

    def tensor(self, name: str) -> Array:
        """A live float32 view of the core's memory, not to be written to."""
        with core_errors():
            view = self._core.tensor(name)
        view.flags.writeable = False
        return view

    def set(self, name: str, value: Array) -> None:
        """Overwrites a tensor."""
        with core_errors():
            view = self._core.tensor(name)
        check_shape(name, view.shape, value)
        view[...] = value

    def step(self) -> StepMetrics:
        """One optimizer step; a loss or norm that is not finite changes step_number alone."""
        number = self.step_number
        with core_errors():
            self._core.step()
            loss, lr, norm, finite = map(self._core.metric, ("loss", "lr", "grad_norm", "finite"))
        return StepMetrics(number, loss, lr, norm, finite != 0)

    def loss(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """Mean cross-entropy of tokens, targets [B,T]; `train` applies dropout of (step, micro)."""
        with core_errors():
            return self._core.loss(tokens, targets, train, step, micro)

    def loss_and_grads(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """The same, and its gradients in the tensors "grad:*", overwritten."""
        with core_errors():
            return self._core.loss_and_grads(tokens, targets, train, step, micro)

    def logits(self, tokens: Array) -> Array:
        """tokens [B,T], T <= ctx -> [B,T,V]."""
        with core_errors():
            return self._core.logits(tokens)

    def evaluate(self, split: str, n_batches: int = 0) -> float:
        """Mean loss over every target of a split ("train", "val"), or over seeded batches."""
        with core_errors():
            return self._core.evaluate(split, n_batches)

    def generate(
        self,
        prompt_ids: Sequence[int],
        temperature: float,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[int]:
        """New token ids without end; take as many as wanted."""
        with core_errors():
            prompt = np.asarray(prompt_ids, np.int64)
            self._core.generate_begin(prompt, temperature, top_k, top_p, seed)
        return self._next_tokens()

    def _next_tokens(self) -> Iterator[int]:
        while True:
            with core_errors():
                token = self._core.generate_next()
            yield token

    def memory(self) -> dict[str, int]:
        """Bytes by role, and "total"."""
        with core_errors():
            return _core.memory(self._core_config, self.mode, self._core.threads, self._n_tokens)

    def close(self) -> None:
        """Gives the memory back once no view of a tensor is left."""
        with core_errors():
            self._core.close()
