"""The stages that bench/evolution.py compares: stages.json, and how each one is started."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pairs
import torch
from step_torch import Peer, first_batch
from tab_page import TabPage
from tab_session import TabSession
from tabgpt import layout, model
from tabgpt.backends.native import NativeSession
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, Recipe, TrainConfig

from remote import Remote  # isort: skip  (of tests/, which tab_page puts on the path)

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "stages.json").read_text())
STAGES: list[dict[str, Any]] = TABLE["stages"]


@functools.cache
def gpu_name() -> str:
    """The adapter that wgpu-py finds, and whether it is software."""
    remote = Remote("wgpu")
    name: str = remote("about")["device"]
    remote.stop()
    return name


class Float32Oracle(NumpySession):
    """The oracle's code on float32 arrays; not for dropout, whose masks are float64."""

    device = "NumPy, float32"

    def _zeros(self) -> model.Tensors:
        return {
            tensor.name: np.zeros(tensor.shape, np.float32)
            for tensor in layout.tensors(self.config)
        }


@dataclass
class Started:
    """A stage with its model at step CHECKED of the run, ready to be timed."""

    side: pairs.Side
    losses: list[float]
    about: dict[str, Any]


@dataclass
class Setting:
    """What all stages of one preset share."""

    recipe: Recipe
    vocab: int
    tokens: np.ndarray
    checked: int
    page: TabPage
    closing: ExitStack

    @property
    def _what(self) -> tuple[ModelConfig, TrainConfig, np.ndarray]:
        return self.recipe.model(self.vocab), self.recipe.train, self.tokens

    def start(self, stage: dict[str, Any]) -> Started:
        """Opens the stage from the recipe's starting weights, and takes its first steps."""
        starters: dict[str, Callable[[dict[str, Any]], Started]] = {
            "numpy": self._numpy,
            "native": self._remote,
            "gpu": self._remote,
            "tab": self._tab,
            "torch": self._torch,
        }
        return starters[stage["host"]](stage)

    def _numpy(self, stage: dict[str, Any]) -> Started:
        session = Float32Oracle(
            self.recipe.model(self.vocab), self.recipe.train, self.tokens, "train"
        )
        self.closing.callback(session.close)
        session.init_weights()
        losses = [session.step().loss for _ in range(self.checked)]
        return Started(pairs.Side(session.step), losses, {})

    def _remote(self, stage: dict[str, Any]) -> Started:
        """A build in a process of its own; a step's answer crosses a pipe in about 0.1 ms."""
        is_gpu = stage["host"] == "gpu"
        remote = Remote("wgpu" if is_gpu else f"native-{stage['build']}")
        self.closing.callback(remote.stop)
        session = remote.open(
            self.recipe.model(self.vocab),
            self.recipe.train,
            self.tokens,
            "train",
            stage.get("threads"),
        )
        session.init_weights()
        losses = [session.step().loss for _ in range(self.checked)]
        kept = {"adapter": gpu_name()} if is_gpu else {"isa": remote("about")["isa"]}
        return Started(pairs.Side(session.step), losses, kept)

    def _tab(self, stage: dict[str, Any]) -> Started:
        session = TabSession(
            self.page, stage["build"], stage["threads"], self.recipe, self.vocab, self.tokens
        )
        self.closing.callback(session.close)
        return Started(session.step_side(), session.losses(self.checked), {"isa": session.isa})

    def _torch(self, stage: dict[str, Any]) -> Started:
        torch.set_num_threads(stage["threads"])
        torch.manual_seed(0)
        weights = NativeSession(*self._what, mode="train")
        weights.init_weights()
        peer = Peer(weights, self.recipe.train, self.tokens)
        weights.close()
        if stage["build"] == "compiled":
            peer.loss = torch.compile(peer.model, fullgraph=True)
        losses = [
            peer.step_on(*first_batch(peer, self.tokens, step)) for step in range(self.checked)
        ]
        return Started(pairs.Side(peer.step), losses, {"torch": torch.__version__})
