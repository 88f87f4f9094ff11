"""The core's plan on a GPU through wgpu-py: the same programs and shaders as in the tab."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import batches, layout
from ..config import ModelConfig, TrainConfig
from ..errors import BackendError
from ..gpu.adapter import BINDING, BUFFER, DEFAULT_LIMITS, Adapter, find_adapter
from ..gpu.executor import Executor
from . import StepMetrics
from .native import _core, core_config, core_errors

Array = NDArray[Any]


def _needed_features(variants: str, adapter: Adapter) -> list[str]:
    """What the chosen kernels need of WebGPU and the adapter has."""
    chosen = variants.split()
    return sorted(
        known["feature"]
        for known in json.loads(_core.gpu_variants())
        if f"{known['family']}={known['name']}" in chosen and known["feature"] in adapter.features
    )


def _plan(
    core: _core.Config, mode: str, adapter: Adapter, variants: str
) -> tuple[_core.Gpu, dict[str, int]]:
    """The plan under WebGPU's default limits; under the adapter's own where those do not do."""
    limits = {name: DEFAULT_LIMITS[name] for name in (BINDING, BUFFER)}
    try:
        return _core.Gpu(core, mode, limits[BINDING], limits[BUFFER], variants), limits
    except _core.TabgptError:
        limits = {name: adapter.limit(name) for name in limits}
        return _core.Gpu(core, mode, limits[BINDING], limits[BUFFER], variants), limits


class WgpuSession:
    """The protocol of `backends` on a GPU; tensors are copies, `set` uploads."""

    def __init__(
        self,
        config: ModelConfig,
        train: TrainConfig | None = None,
        tokens: NDArray[np.integer] | None = None,
        mode: str = "infer",
        variants: str = "",
    ) -> None:
        self.config = config
        self.mode = mode
        adapter = find_adapter()
        self.device = adapter.name
        features = _needed_features(variants, adapter)
        choice = adapter.told(variants, features)
        with core_errors():
            self._core, limits = _plan(core_config(config, train), mode, adapter, choice)
            if tokens is not None:
                batches.split(tokens, config.ctx)
                self._core.set_tokens(tokens)
        plan = json.loads(self._core.plan())
        self._full: tuple[int, int] = tuple(plan["batch"])  # the shape that the plan is made for
        self._shape = self._full
        self._plan = {key: plan[key] for key in ("tensors", "words", "programs")}
        self._micro_batches: int = plan["micro_batches"]
        self._parameters = [tensor.name for tensor in layout.tensors(config)]
        self._executor = Executor(plan, adapter.device(limits, features))

    @property
    def step_number(self) -> int:
        return int(self._core.step_number)

    @step_number.setter
    def step_number(self, step: int) -> None:
        with core_errors():
            self._core.step_number = step

    def init_weights(self) -> None:
        """The starting weights of the config's seed; step 0, moments zero."""
        for name in self._parameters:
            values = np.empty(self._executor.tensors[name]["shape"], np.float32)
            with core_errors():
                self._core.initial_values(name, values)
            self._executor.write(name, values)
        self._executor.clear(("gradients", "adam_m", "adam_v"))
        self._core.weights_changed()
        self.step_number = 0

    # -- named tensors --

    def names(self) -> list[str]:
        roles = ("", "grad:", "m:", "v:") if self.mode != "infer" else ("",)
        names = [role + name for role in roles for name in self._parameters]
        if self.mode == "probe":
            names += layout.activations(self.config, 1, 1)
            names += [f"grad:{name}" for name in layout.activation_gradients(self.config, 1, 1)]
        return names

    def tensor(self, name: str) -> Array:
        """A copy, float32. Activations have the last batch's shape."""
        return self._executor.read(self._known(name))

    def set(self, name: str, value: Array) -> None:
        """Uploads a tensor."""
        self._executor.write(self._known(name), value)
        self._core.weights_changed()

    def _known(self, name: str) -> str:
        if name in self.names():
            return name
        raise BackendError(
            f"no tensor {name!r} in mode {self.mode}: infer holds parameters, train adds grad:, "
            f"m: and v:, probe adds activations and their grad:"
        )

    # -- training --

    def step(self) -> StepMetrics:
        """One optimizer step; a loss or norm that is not finite changes step_number alone."""
        number = self.step_number
        self._use_shape(self._full)
        with core_errors():
            self._core.fill_step(0)
            self._executor.run("begin_step")
            for micro in range(self._micro_batches):
                self._core.fill_step(micro)
                self._executor.upload_inputs(self._core.inputs())
                self._executor.run("forward", "backward")
            self._executor.run("update")
            self._core.end_step()
            self._core.read_stats(number, self._executor.read("stats"))
            loss, lr, norm, finite = map(self._core.metric, ("loss", "lr", "grad_norm", "finite"))
        return StepMetrics(number, loss, lr, norm, finite != 0)

    def loss(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """Mean cross-entropy of tokens, targets [B,T]; `train` applies dropout of (step, micro)."""
        self._fill(tokens, targets, train, step, micro)
        self._executor.run("forward", "losses")
        return self._core.mean_loss(self._executor.read("losses"))

    def loss_and_grads(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """The same, and its gradients in the tensors "grad:*", overwritten."""
        if self.mode == "infer":
            raise BackendError(
                "loss_and_grads needs gradients, which mode infer does not hold; open the session "
                "in mode train or probe"
            )
        self._fill(tokens, targets, train, step, micro)
        self._executor.run("begin_step", "forward", "backward")
        return self._core.mean_loss(self._executor.read("losses"))

    def _fill(self, tokens: Array, targets: Array, train: bool, step: int, micro: int) -> None:
        """Uploads a batch, with the programs for its shape."""
        with core_errors():
            self._core.fill_batch(tokens, targets, train, step, micro)
            batch, length = np.shape(tokens)
            self._use_shape((batch, length))
            self._executor.upload_inputs(self._core.inputs())

    def _use_shape(self, shape: tuple[int, int]) -> None:
        """Another batch's shape is other programs over the same buffers."""
        if shape == self._shape:
            return
        part = self._plan if shape == self._full else json.loads(self._core.programs(*shape))
        self._executor.load(part)
        self._shape = shape

    # -- using the model --

    def logits(self, tokens: Array) -> Array:
        """tokens [B,T], T <= ctx -> [B,T,V]."""
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.config.ctx:
            self._fill(tokens, tokens, False, 0, 0)  # which says what is wrong
        batch, length = tokens.shape
        most = self._full[0] * self._full[1] // length
        parts = [self._logits_of(tokens[b : b + most]) for b in range(0, max(batch, 1), most)]
        return np.concatenate(parts).reshape(batch, length, self.config.vocab_size)

    def _logits_of(self, tokens: Array) -> Array:
        """Of one batch, [rows,V]; a chunk of rows at a time, as the plan has room for them."""
        self._fill(tokens, tokens, False, 0, 0)
        self._executor.run("forward")
        rows, chunk, parts = tokens.size, 0, []
        while rows > 0:
            program = f"logits.{chunk}"
            self._executor.run(program)
            data = self._executor.read_result(program, "out")
            part = np.frombuffer(data, np.float32).reshape(-1, self.config.vocab_size)
            parts.append(part)
            rows -= len(part)
            chunk += 1
        return np.concatenate(parts)

    def evaluate(self, split: str, n_batches: int = 0) -> float:
        """Mean loss over every target of a split ("train", "val"), or over seeded batches."""
        with core_errors():
            self._core.evaluate_begin(split, n_batches)
            self._use_shape(self._full)
            more = True
            while more:
                self._core.evaluate_fill()
                self._executor.upload_inputs(self._core.inputs())
                self._executor.run("forward", "losses")
                more = self._core.evaluate_next(self._executor.read("losses"))
            return self._core.metric("loss")

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
                prefill = self._core.generate_fill()
                self._executor.upload_inputs(self._core.inputs())
                self._executor.run(*(("prefill", "decode") if prefill else ("decode",)))
                token = self._core.generate_next(self._executor.read("decode.logits"))
            yield token

    # -- the rest of the protocol --

    def memory(self) -> dict[str, int]:
        """Bytes by role on the device, and "total"."""
        return self._core.memory()

    def close(self) -> None:
        """Gives the device's memory back; the session is of no use afterwards."""
        self._executor.close()
