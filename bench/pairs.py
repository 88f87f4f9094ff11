"""Interleaved timing of two sides: medians of pair ratios with their spread, raw samples kept.

One side's sample and the other's directly after it are a pair; who goes first
alternates, so that a drift of the machine's speed cancels. More than two sides
take turns in rounds in the same way. Before each sample the other sides' threads
must have gone to sleep, and one untimed call wakes this side's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

LEAST_SAMPLE_S = 1e-3
LEAST_QUANTA = 20
WARM_UP_S = 0.2
LONG_CALL_S = 0.1
"""A call this long does not show what waking threads costs, tens of microseconds."""
IDLE_LOOK_S = 0.01
IDLE_LIMIT_S = 10.0
IDLE_SHARE = 0.05
"""A process that uses less of one core than this while it sleeps is idle."""

Call = Callable[[], object]


def clock_quantum() -> float:
    """Smallest step of time.perf_counter that shows, in seconds."""
    steps = []
    while len(steps) < 1000:
        before = time.perf_counter()
        while (now := time.perf_counter()) == before:
            pass
        steps.append(now - before)
    return min(steps)


def wait_until_idle() -> None:
    """Sleeps until no thread of this process spins; RuntimeError when one does not stop.

    OpenBLAS's and OpenMP's threads spin for milliseconds after their last job
    and would take the core from the other side.
    """
    deadline = time.perf_counter() + IDLE_LIMIT_S
    while time.perf_counter() < deadline:
        used = time.process_time()
        time.sleep(IDLE_LOOK_S)
        if time.process_time() - used < IDLE_SHARE * IDLE_LOOK_S:
            return
    raise RuntimeError(
        f"threads of this process still spin after {IDLE_LIMIT_S:g} s; "
        f"set OMP_WAIT_POLICY=passive or measure the sides in two processes"
    )


@dataclass
class Side:
    """What is called, how often a sample, and the seconds a call of each sample."""

    call: Call
    calls: int = 1
    best_s: float = math.inf
    """Fastest call of the warm-up."""
    seconds: list[float] = field(default_factory=list)
    clock: ClassVar[str] = "time.perf_counter"
    warm_ups: ClassVar[int] = 1
    """In units of WARM_UP_S."""

    def timed(self, calls: int, wake: bool = False) -> float:
        """Seconds of that many calls, by this side's clock; `wake` makes one more before them."""
        if wake:
            self.call()
        before = time.perf_counter()
        for _ in range(calls):
            self.call()
        return time.perf_counter() - before

    def quantum(self) -> float:
        """Smallest step of the clock that shows, in seconds."""
        return clock_quantum()

    def warm_up(self, sample_s: float) -> None:
        """Calls for long enough, and chooses the calls that fill sample_s."""
        left, calls = self.warm_ups * WARM_UP_S, 1
        while left > 0:
            elapsed = self.timed(calls)
            self.best_s = min(self.best_s, elapsed / calls)
            left -= elapsed
            calls = max(1, min(2 * calls, math.ceil(left / max(self.best_s, 1e-9))))
        self.calls = max(1, math.ceil(1.2 * sample_s / max(self.best_s, 1e-9)))

    def sample(self, least_s: float) -> None:
        """Adds one sample; one that is too short for the clock is taken again with more calls."""
        wait_until_idle()
        wake = self.best_s < LONG_CALL_S
        while (elapsed := self.timed(self.calls, wake)) < least_s:
            self.calls *= 2
        self.seconds.append(elapsed / self.calls)


def ratio(ours_s: Sequence[float], peer_s: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the pairs' peer / ours: above 1, ours is the faster one."""
    ratios = [peer / ours for ours, peer in zip(ours_s, peer_s, strict=True)]
    q1, median, q3 = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}


def take_rounds(sides: Sequence[Side], *, rounds: int, sample_s: float) -> dict[str, Any]:
    """Warms each side up, then samples all of them a round, in turns from either end.

    The samples, sample_s or a little more each, are in `seconds` of the sides;
    what comes back says for a record how they were taken.
    """
    quantum = max(side.quantum() for side in sides)
    least_s = max(LEAST_SAMPLE_S, LEAST_QUANTA * quantum)
    for side in sides:
        wait_until_idle()
        side.warm_up(max(sample_s, least_s))
    for turn in range(rounds):
        for side in sides if turn % 2 == 0 else reversed(sides):
            side.sample(least_s)
    return {
        "warm_up_s": WARM_UP_S * min(side.warm_ups for side in sides),
        "clock": ", ".join(dict.fromkeys(side.clock for side in sides)),
        "quantum_s": quantum,
    }


def compare(ours: Call, peer: Call, *, pairs: int, sample_s: float) -> dict[str, Any]:
    """Times two sides `pairs` times (at least 2); the result goes into a record as it is."""
    mine, theirs = Side(ours), Side(peer)
    taken = take_rounds([mine, theirs], rounds=pairs, sample_s=sample_s)
    return {**samples(mine, theirs), **taken}


def samples(ours: Side, peer: Side) -> dict[str, Any]:
    """Raw seconds a call of two sides, the calls a sample, and `ratio` (see above)."""
    return {
        "ours_s": ours.seconds,
        "peer_s": peer.seconds,
        "ours_calls": ours.calls,
        "peer_calls": peer.calls,
        "ratio": ratio(ours.seconds, peer.seconds),
    }


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of ratios above 0, at least one."""
    return math.exp(statistics.fmean(math.log(value) for value in ratios))
