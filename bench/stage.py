"""The stages that bench/evolution.py compares: stages.json, and how each one is started."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pairs
import torch
from step_torch import Peer, first_batch
from tab_page import TabPage
from tab_session import WORKER, TabSession, TogetherSide
from tabgpt import layout, model
from tabgpt.backends.native import NativeSession
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import ModelConfig, Recipe, TrainConfig

from remote import Remote  # isort: skip  (of tests/, which tab_page puts on the path)

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "stages.json").read_text())
STAGES: list[dict[str, Any]] = TABLE["stages"]
CONTROLS: list[dict[str, Any]] = TABLE["controls"]
"""What no page could run, measured beside the stages to tell where a gain goes."""


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


class Processes(pairs.Side):
    """Native sessions in processes of their own that step at the same time."""

    def __init__(self, sessions: Sequence[Any], pool: ThreadPoolExecutor) -> None:
        self._sides = [pairs.Side(session.step) for session in sessions]
        self._pool = pool
        super().__init__(call=lambda: list(pool.map(lambda side: side.call(), self._sides)))

    def timed(self, calls: int, wake: bool = False) -> float:
        """Seconds in which the sessions together take as many steps: their rates are added."""
        taken = self._pool.map(lambda side: side.timed(calls, wake), self._sides)
        return 1 / sum(1 / seconds for seconds in taken)


@dataclass
class Started:
    """A stage with its model at step CHECKED of the run, ready to be timed."""

    side: pairs.Side
    losses: list[float]
    about: dict[str, Any]


def alike(losses: Sequence[list[float]]) -> list[float]:
    """The losses of copies of one run, which are equal bit for bit; RuntimeError where not."""
    if any(each != losses[0] for each in losses):
        raise RuntimeError(f"copies of one run gave the losses {losses}")
    return losses[0]


@dataclass
class Setting:
    """What all stages of one preset share."""

    recipe: Recipe
    vocab: int
    tokens: np.ndarray
    checked: int
    page: TabPage
    unchecked: TabPage
    """In a Chromium without bounds checks."""
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
        sessions, losses = [], []
        for _ in range(stage.get("copies", 1)):
            remote = Remote("wgpu" if is_gpu else f"native-{stage['build']}")
            self.closing.callback(remote.stop)
            session = remote.open(*self._what, "train", stage.get("threads"))
            session.init_weights()
            losses.append([session.step().loss for _ in range(self.checked)])
            sessions.append(session)
        kept = {"adapter": gpu_name()} if is_gpu else {"isa": remote("about")["isa"]}
        if len(sessions) == 1:
            return Started(pairs.Side(session.step), alike(losses), kept)
        pool = self.closing.enter_context(ThreadPoolExecutor(len(sessions)))
        return Started(Processes(sessions, pool), alike(losses), kept)

    def _tab(self, stage: dict[str, Any]) -> Started:
        page = self.unchecked if stage.get("unchecked") else self.page
        sessions = [
            TabSession(
                page,
                stage["build"],
                stage["threads"],
                self.recipe,
                self.vocab,
                self.tokens,
                worker=f"{WORKER}#{copy}" if copy else WORKER,
            )
            for copy in range(stage.get("copies", 1))
        ]
        for session in sessions:
            self.closing.callback(session.close)
        losses = alike([session.losses(self.checked) for session in sessions])
        alone = len(sessions) == 1
        side = sessions[0].step_side() if alone else TogetherSide(page, sessions)
        return Started(side, losses, {"isa": sessions[0].isa})

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
