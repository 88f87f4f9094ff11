"""A model to use: logits, gradients, text. `tabgpt.load` gives one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import checkpoint as checkpoints
from . import layout
from .backends import Session, check_backend, open_session
from .checkpoint import Checkpoint
from .config import FIELDS, ModelConfig, SampleConfig, TrainConfig
from .errors import BackendError, CheckpointError, TokenizerError
from .tokenizer import Tokenizer

Array = NDArray[Any]


class Model:
    """Weights on a backend, with the tokenizer that they were trained with."""

    def __init__(
        self, about: Checkpoint, session: Session, backend: str, threads: int | None = None
    ) -> None:
        self.about = about
        """Config, tokenizer, step and run; the weights themselves are in the session."""
        self.session = session
        self.backend = backend
        self._threads = threads
        self._grad_session: Session | None = None
        self._grad_batch = 0

    @property
    def config(self) -> ModelConfig:
        return self.about.config

    @property
    def tokenizer(self) -> Tokenizer:
        return self.about.tokenizer

    def weights(self) -> dict[str, Array]:
        """Every parameter by Hugging Face's name, to be read; set_weights changes them."""
        return {t.name: self.session.tensor(t.name) for t in layout.tensors(self.config)}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Overwrites the parameters that are given, by Hugging Face's name."""
        for name, array in weights.items():
            self.session.set(name, array)

    def logits(self, tokens: ArrayLike) -> Array:
        """tokens (B, T), T <= ctx -> (B, T, V)."""
        return self.session.logits(_ids("tokens", tokens))

    def loss(self, tokens: ArrayLike, targets: ArrayLike) -> float:
        """Mean cross-entropy of tokens, targets (B, T), without dropout; any B."""
        tokens, targets = _ids("tokens", tokens), _ids("targets", targets)
        rows = self._batch_size
        if tokens.ndim != 2 or len(tokens) <= rows or tokens.shape != targets.shape:
            return self.session.loss(tokens, targets)  # which names what is wrong with them
        parts = [slice(first, first + rows) for first in range(0, len(tokens), rows)]
        losses = [self.session.loss(tokens[part], targets[part]) for part in parts]
        return float(np.average(losses, weights=[len(tokens[part]) for part in parts]))

    @property
    def _batch_size(self) -> int:
        """Rows that the session planned its activations for."""
        return _plan_of(self.about).batch_size

    def loss_and_grads(
        self, tokens: ArrayLike, targets: ArrayLike
    ) -> tuple[float, dict[str, Array]]:
        """The loss, and its gradients by Hugging Face's name, shaped like the weights."""
        tokens, targets = _ids("tokens", tokens), _ids("targets", targets)
        session = self._with_gradients(len(tokens) if tokens.ndim else 1)
        loss = session.loss_and_grads(tokens, targets)
        return loss, {name: session.tensor(f"grad:{name}").copy() for name in self.weights()}

    def _with_gradients(self, batch: int) -> Session:
        """A session that holds gradients, opened when they are first wanted."""
        session = self._grad_session
        if session is None or self._grad_batch < batch:
            self.close_gradients()
            session = open_session(
                self.backend,
                self.config,
                TrainConfig(batch_size=max(1, batch)),
                mode="train",
                threads=self._threads,
            )
            self._grad_session, self._grad_batch = session, batch
        for name, array in self.weights().items():
            session.set(name, array)
        return session

    def stream(
        self,
        prompt: str | Sequence[int] = "",
        max_new_tokens: int = FIELDS["max_new_tokens"].default,
        temperature: float = FIELDS["temperature"].default,
        top_k: int = FIELDS["top_k"].default,
        top_p: float = FIELDS["top_p"].default,
        seed: int = FIELDS["sample_seed"].default,
    ) -> Iterator[int]:
        """The ids that follow the prompt, as they are chosen."""
        options = SampleConfig(max_new_tokens, temperature, top_k, top_p, seed)
        ids = self.encode_prompt(prompt)
        new = self.session.generate(
            ids, options.temperature, options.top_k, options.top_p, options.sample_seed
        )
        return islice(new, options.max_new_tokens)

    def encode_prompt(self, prompt: str | Sequence[int]) -> list[int]:
        """A prompt's ids; for an empty one a newline, or token 0 where there is none."""
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) and prompt else prompt
        if len(ids) == 0:
            ids = self.tokenizer.default_prompt()
        array = np.asarray(ids)
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise TokenizerError(f"the prompt must be text or a row of token ids, not {prompt!r}")
        outside = array[(array < 0) | (array >= self.config.vocab_size)]
        if len(outside):
            raise TokenizerError(
                f"the prompt holds the token id {outside[0]}; ids run from 0 to "
                f"{self.config.vocab_size - 1}"
            )
        return [int(i) for i in array]

    @overload
    def generate(self, prompt: str = "", *, stop: str = "", **options: Any) -> str: ...
    @overload
    def generate(self, prompt: Sequence[int], *, stop: str = "", **options: Any) -> list[int]: ...
    def generate(
        self, prompt: str | Sequence[int] = "", *, stop: str = "", **options: Any
    ) -> str | list[int]:
        """The prompt and what follows: text for a text, ids for ids.

        Options: max_new_tokens, temperature (0: always the likeliest), top_k (0: all),
        top_p, seed. `stop`: the text ends before the first occurrence of this after
        the prompt; ids hold no text to look for it in.
        """
        if not isinstance(prompt, str):
            if stop:
                raise TokenizerError(
                    f"stop is {stop!r}, and a prompt of token ids gives token ids, which hold no "
                    f"text to stop at: give the prompt as text, or end at max_new_tokens"
                )
            return [int(i) for i in prompt] + list(self.stream(prompt, **options))
        self.tokenizer.decoder()  # a model without a tokenizer says so before it works
        pieces = decode_stream(self.tokenizer, self.stream(prompt, **options), stop)
        return prompt + "".join(pieces)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """A checkpoint folder that tabgpt, the browser and transformers open."""
        folder = Path(folder)
        if any(folder.glob("optimizer-*.safetensors")):
            raise CheckpointError(
                f"{folder} holds a run that can be resumed, and saving the model alone would end "
                f"that: save to another folder"
            )
        about = Checkpoint(**{**vars(self.about), "tensors": self.weights(), "moments": None})
        checkpoints.save(folder, about)

    def close_gradients(self) -> None:
        if self._grad_session is not None:
            self._grad_session.close()
            self._grad_session = None

    def close(self) -> None:
        """Gives the memory back; the model is of no use afterwards."""
        self.close_gradients()
        self.session.close()


def _ids(what: str, value: ArrayLike) -> Array:
    """As an array; the session checks its type, shape and range."""
    try:
        return np.asarray(value)
    except ValueError:
        raise BackendError(
            f"{what} is no (B, T) array, for its rows differ in length; cut them to one length"
        ) from None


def decode_stream(tokenizer: Tokenizer, ids: Iterator[int], stop: str = "") -> Iterator[str]:
    """Pieces of text as they become sure; ends before `stop`, which may span pieces."""
    decode = tokenizer.decoder()
    held = ""
    for token in ids:
        held += decode(token)
        if stop and stop in held:
            yield held[: held.index(stop)]
            return
        # what could still be the beginning of `stop` waits for the next token
        keep = next((n for n in range(len(stop) - 1, 0, -1) if held.endswith(stop[:n])), 0)
        if len(held) > keep:
            yield held[: len(held) - keep]
            held = held[len(held) - keep :]
    yield held


def _plan_of(about: Checkpoint) -> TrainConfig:
    """The run's own plan; a model that was saved without a run is used row by row."""
    return about.train or TrainConfig(batch_size=1)


def load(
    path: str | os.PathLike[str], backend: str = "native", threads: int | None = None
) -> Model:
    """A checkpoint of ours, or a file or folder that transformers saved, ready to use."""
    check_backend(backend)
    about = checkpoints.load(Path(path))
    session = open_session(backend, about.config, _plan_of(about), threads=threads)
    for name, array in about.tensors.items():
        session.set(name, array)
    about.tensors = {}
    session.step_number = about.step
    return Model(about, session, backend, threads)
