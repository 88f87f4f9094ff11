"""The oracle as a backend: float64, one thread, everything kept. It trains, slowly."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .. import batches, layout, model, optim, sampling
from ..config import ModelConfig, TrainConfig
from ..errors import BackendError
from ..ops import Array, Dropout
from . import StepMetrics, check_shape

MODES = ("infer", "train", "probe")
_FLOAT64 = 8


class NumpySession:
    """A model, and in the modes "train" and "probe" its gradients and AdamW's moments.

    A probe also keeps the activations of the last batch and their gradients.
    """

    device = "one thread, float64"

    def __init__(
        self,
        config: ModelConfig,
        train: TrainConfig | None = None,
        tokens: NDArray[np.integer] | None = None,
        mode: str = "infer",
    ) -> None:
        if mode not in MODES:
            raise BackendError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
        self.config = config
        self.train_config = train or TrainConfig()
        self.mode = mode
        self.step_number = 0
        self._closed = False
        self._layout = layout.tensors(config)
        self._splits: dict[str, NDArray[np.integer]] = {}
        if tokens is not None:
            tokens = self._ids("corpus", tokens, ndim=1)
            train_part, val_part = batches.split(tokens, config.ctx)
            self._splits = {"train": train_part, "val": val_part}
            self._refuse_what_memory_cannot_hold()
        self._params = self._zeros()
        roles = ("grad", "m", "v") if mode != "infer" else ()
        self._roles = {role: self._zeros() for role in roles}
        self._acts: model.Tensors = {}
        self._dacts: model.Tensors = {}

    def _zeros(self) -> model.Tensors:
        return {tensor.name: np.zeros(tensor.shape) for tensor in self._layout}

    def init_weights(self) -> None:
        """The starting weights of the config's seed; step 0, moments zero."""
        self._check_open()
        for number, tensor in enumerate(self._layout):
            values = layout.init(tensor, number, self.train_config.seed)
            self._params[tensor.name][...] = values
        for arrays in self._roles.values():
            for array in arrays.values():
                array[...] = 0
        self.step_number = 0

    # -- named tensors --

    def names(self) -> list[str]:
        """Every tensor of this mode, whether or not a batch has filled it yet."""
        self._check_open()
        params = list(self._params)
        names = params + [f"{role}:{name}" for role in self._roles for name in params]
        if self.mode == "probe":
            names += layout.activations(self.config, 1, 1)
            names += [f"grad:{name}" for name in layout.activation_gradients(self.config, 1, 1)]
        return names

    def tensor(self, name: str) -> Array:
        """A view of the array, float64, not to be written to. Activations: the last batch's."""
        view = self._array(name).view()
        view.flags.writeable = False
        return view

    def set(self, name: str, value: Array) -> None:
        """Overwrites a tensor."""
        array = self._array(name)
        check_shape(name, array.shape, value)
        array[...] = value

    def _array(self, name: str) -> Array:
        self._check_open()
        role, _, rest = name.rpartition(":")
        for array in (
            self._params.get(name),
            self._roles.get(role, {}).get(rest),
            self._acts.get(name),
            self._dacts.get(rest) if role == "grad" else None,
        ):
            if array is not None:
                return array
        if name in self.names():
            raise BackendError(f"{name} is empty: no batch has been computed yet")
        raise BackendError(f"no tensor {name!r} in mode {self.mode!r}; names() lists what there is")

    # -- training --

    def step(self) -> StepMetrics:
        """One optimizer step; a loss or norm that is not finite changes step_number alone."""
        part = self._split("train")
        if self.mode == "infer":
            raise BackendError('mode "infer" cannot train; open the session as "train"')
        train, step = self.train_config, self.step_number
        losses = []
        sums = self._zeros()
        for micro in range(train.grad_accum):
            tokens, targets = batches.training_batch(
                part, self.config.ctx, train.batch_size, train.seed, step, micro
            )
            losses.append(self.loss_and_grads(tokens, targets, True, step, micro))
            for name, total in sums.items():
                total += self._roles["grad"][name] / train.grad_accum
        for name, total in sums.items():
            self._roles["grad"][name][...] = total
        loss = float(np.mean(losses))
        norm = optim.global_norm(sums.values())
        finite = bool(np.isfinite(loss) and np.isfinite(norm))
        if finite:
            coefficient = optim.clip_coefficient(norm, train.grad_clip)
            for tensor in self._layout:
                optim.adamw(
                    self._params[tensor.name],
                    sums[tensor.name] * coefficient,
                    self._roles["m"][tensor.name],
                    self._roles["v"][tensor.name],
                    train=train,
                    step=step,
                    decayed=tensor.decayed,
                )
        self.step_number = step + 1
        return StepMetrics(step, loss, optim.learning_rate(train, step), norm, finite)

    def loss(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """Mean cross-entropy of ids [B,T]; `train` applies the dropout of (step, micro)."""
        tokens, targets = self._pair(tokens, targets)
        return self._forward(tokens, targets, self._dropout(train, step, micro))

    def loss_and_grads(
        self, tokens: Array, targets: Array, train: bool = False, step: int = 0, micro: int = 0
    ) -> float:
        """The same, and its gradients in the tensors "grad:*", overwritten."""
        if self.mode == "infer":
            raise BackendError('mode "infer" holds no gradients; open the session as "train"')
        tokens, targets = self._pair(tokens, targets)
        dropout = self._dropout(train, step, micro)
        loss = self._forward(tokens, targets, dropout)
        with np.errstate(all="ignore"):  # the step reports what is not finite
            grads, dacts = model.backward(
                self.config, self._params, self._acts, tokens, targets, dropout
            )
        for name, grad in grads.items():
            self._roles["grad"][name][...] = grad
        if self.mode == "probe":
            self._dacts = dacts
        else:
            self._acts = {}
        return loss

    def _forward(self, tokens: Array, targets: Array, dropout: Dropout) -> float:
        """Keeps the activations: the backward pass and a probe's reader want them."""
        with np.errstate(all="ignore"):
            self._acts = model.forward(self.config, self._params, tokens, targets, dropout)
        self._dacts = {}
        return float(np.mean(self._acts["losses"]))

    def _dropout(self, train: bool, step: int, micro: int) -> Dropout:
        p = self.config.dropout if train else 0.0
        return Dropout(p, self.train_config.seed, step, micro)

    # -- using the model --

    def logits(self, tokens: Array) -> Array:
        """tokens [B,T], T <= ctx -> [B,T,V]."""
        tokens = self._ids("tokens", tokens, ndim=2)
        with np.errstate(all="ignore"):
            acts = model.forward(self.config, self._params, tokens)
        return acts["logits"]

    def evaluate(self, split: str, n_batches: int = 0) -> float:
        """Mean loss over every target of a split ("train", "val"), or over seeded batches."""
        part = self._split(split)
        ctx, train = self.config.ctx, self.train_config
        means, sizes = [], []
        for tokens, targets in batches.evaluation_batches(
            part, ctx, train.batch_size, train.seed, n_batches
        ):
            with np.errstate(all="ignore"):
                means.append(model.loss(self.config, self._params, tokens, targets))
            sizes.append(targets.size)
        return float(np.average(means, weights=sizes))

    def generate(
        self,
        prompt_ids: Sequence[int],
        temperature: float,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Iterator[int]:
        """New token ids without end; take as many as wanted."""
        prompt = [int(i) for i in self._ids("prompt", np.asarray(prompt_ids, np.int64), ndim=1)]

        def next_logits(window: list[int]) -> Array:
            last: Array = self.logits(np.array([window]))[0, -1]
            return last

        return sampling.generate(
            next_logits, self.config.ctx, prompt, temperature, top_k, top_p, seed
        )

    # -- the rest of the protocol --

    def memory(self) -> dict[str, int]:
        """Bytes by role; activations and workspace are what a batch needs at its peak, roughly."""
        config = self.config
        n = sum(math.prod(tensor.shape) for tensor in self._layout)
        training = self.mode != "infer"
        B = self.train_config.batch_size if training else 1
        acts = sum(map(math.prod, layout.activations(config, B, config.ctx).values()))
        dacts = sum(map(math.prod, layout.activation_gradients(config, B, config.ctx).values()))
        # Attention holds scores, probabilities, dropout's factor and a product at once.
        workspace = 4 * B * config.n_head * config.ctx**2
        roles = {
            "parameters": n,
            "gradients": 3 * n if training else 0,  # the named ones, the sum, a micro-batch's
            "adam_m": n if training else 0,
            "adam_v": n if training else 0,
            "activations": acts + dacts if training else acts,
            "kv_cache": 0,
            "workspace": workspace,
            "tokens": sum(part.size for part in self._splits.values()),
        }
        sizes = {role: count * _FLOAT64 for role, count in roles.items()}
        return sizes | {"total": sum(sizes.values())}

    def _refuse_what_memory_cannot_hold(self) -> None:
        """Linux grants more than it has, and kills who touches it."""
        if not hasattr(os, "sysconf"):
            return
        need, there = (
            self.memory()["total"],
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"),
        )
        if need > there:
            raise BackendError(
                f"the session needs {need} bytes, and this machine has {there}; use a smaller "
                f"model or batch_size, or the native backend, which needs less"
            )

    def close(self) -> None:
        """Lets go of every array; the session is of no use afterwards."""
        self._params, self._roles, self._acts, self._dacts, self._splits = {}, {}, {}, {}, {}
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the session is closed; open a new one")

    # -- checks at the door --

    def _split(self, name: str) -> NDArray[np.integer]:
        self._check_open()
        if name not in ("train", "val"):
            raise BackendError(f'split is {name!r}; it must be "train" or "val"')
        if not self._splits:
            raise BackendError("this session has no corpus; open it with tokens")
        return self._splits[name]

    def _pair(self, tokens: Array, targets: Array) -> tuple[Array, Array]:
        tokens = self._ids("tokens", tokens, ndim=2)
        targets = self._ids("targets", targets, ndim=2)
        if tokens.shape != targets.shape:
            raise BackendError(
                f"tokens have shape {tokens.shape} and targets {targets.shape}; they must be equal"
            )
        return tokens, targets

    def _ids(self, what: str, ids: Array, ndim: int) -> NDArray[np.integer]:
        """ids as int64: whole numbers below vocab_size, in [B,T] with T <= ctx, or a plain row."""
        self._check_open()
        ids = np.asarray(ids)
        V, ctx = self.config.vocab_size, self.config.ctx
        if not np.issubdtype(ids.dtype, np.integer):
            raise BackendError(f"{what}: dtype {ids.dtype}; give whole numbers")
        if ids.ndim != ndim:
            raise BackendError(f"{what}: {ids.ndim} dimensions; give {ndim}")
        if ndim == 2 and not 1 <= ids.shape[1] <= ctx:
            raise BackendError(f"{what}: {ids.shape[1]} in a row; from 1 to ctx = {ctx} fit")
        if ids.size and not 0 <= ids.min() <= ids.max() < V:
            bad = ids.min() if ids.min() < 0 else ids.max()
            raise BackendError(f"{what}: id {bad}; ids run from 0 to {V - 1}")
        if ndim == 2 and ids.shape[0] == 0:
            raise BackendError(f"{what}: no rows; give at least one")
        return ids.astype(np.int64)
