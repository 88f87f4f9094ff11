"""Sessions of the core in a Chromium worker; a side of a measurement that the tab's clock times."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pairs
from tab_page import TabPage, open_page
from tabgpt.config import Recipe

WORKER = "session"
SETTLE_S = 0.02
"""Before each sample: the core's threads spin for microseconds, Chromium answers and rests."""


class TabSide(pairs.Side):
    """A side whose calls happen in the tab: a worker's answer to `job` holds their seconds."""

    clock: ClassVar[str] = "performance.now"
    warm_ups: ClassVar[int] = 3
    """V8 first compiles quickly, and well what has run for a while."""

    def __init__(self, page: TabPage, worker: str, **job: Any) -> None:
        super().__init__(call=self._no_call)
        self._page = page
        self._worker = worker
        self._job = job

    def _no_call(self) -> None:
        raise AssertionError("the tab makes the calls of this side")

    def timed(self, calls: int, wake: bool = False) -> float:
        time.sleep(SETTLE_S)
        answer = self._page.ask(self._worker, **self._job, count=calls, wake=wake)
        return float(answer["seconds"])

    def quantum(self) -> float:
        return float(self._page.ask(self._worker, do="quantum"))


class TogetherSide(TabSide):
    """Sessions, each in its own worker, that step at once and never wait for one another."""

    def __init__(self, page: TabPage, sessions: Sequence[TabSession]) -> None:
        super().__init__(page, WORKER)
        self._questions = [session.step_question() for session in sessions]

    def timed(self, calls: int, wake: bool = False) -> float:
        """Seconds in which the sessions together take as many steps: their rates are added."""
        time.sleep(SETTLE_S)
        more = {"count": calls, "wake": wake}
        asked = [(worker, {**job, **more}) for worker, job in self._questions]
        answers = self._page.ask_together(asked)
        return 1 / sum(1 / float(answer["seconds"]) for answer in answers)


class TabSession:
    """A model in the tab with the starting weights of its recipe's seed."""

    def __init__(
        self,
        page: TabPage,
        build: str,
        threads: int,
        recipe: Recipe,
        vocab: int,
        tokens: np.ndarray | None = None,
        worker: str = WORKER,
    ) -> None:
        """In mode "train" on these tokens; in mode "infer" without."""
        self._page = page
        self._worker = worker
        self._config = {**recipe.model(vocab).to_dict(), **recipe.train.to_dict()}
        ids = np.zeros(0, np.uint32) if tokens is None else tokens.astype(np.uint32)
        opened = page.ask(
            worker,
            do="open",
            build=build,
            threads=threads,
            config=self._config,
            mode="infer" if tokens is None else "train",
            tokens=base64.b64encode(ids.tobytes()).decode(),
        )
        self._id = opened["id"]
        self.isa = str(opened["isa"])
        self.parameters = int(opened["parameters"])

    def losses(self, steps: int) -> list[float]:
        """Of as many more training steps."""
        losses: list[float] = self._ask("steps", count=steps)["losses"]
        return losses

    def step_side(self) -> TabSide:
        """Training steps, to be timed."""
        worker, job = self.step_question()
        return TabSide(self._page, worker, **job)

    def step_question(self) -> tuple[str, dict[str, Any]]:
        """Whom to ask for training steps, and what; their count is added."""
        return self._worker, {"do": "steps", "id": self._id}

    def generate(self, prompt: Sequence[int], count: int) -> tuple[float, list[int]]:
        """Greedy: the seconds of `count` tokens after the first, and the ids with the first."""
        answer = self._ask("generate", prompt=list(prompt), count=count)
        return answer["seconds"], answer["ids"]

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """[T,V] of one sequence."""
        values = self._ask("logits", prompt=list(tokens), config=self._config)
        return np.array(values).reshape(len(tokens), -1)

    def close(self) -> None:
        self._ask("close")

    def _ask(self, what: str, **job: Any) -> Any:
        return self._page.ask(self._worker, do=what, id=self._id, **job)


@contextmanager
def open_tab(*flags: str) -> Iterator[TabPage]:
    """A page with the worker of sessions, in a Chromium with these switches."""
    with open_page([WORKER], flags=flags) as page:
        yield page
