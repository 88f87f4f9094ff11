"""Interleaved timing of two sides: medians of pair ratios with their spread, raw samples kept.

One side's sample and the other's directly after it are a pair; who goes first
alternates, so that a drift of the machine's speed cancels. Before each sample
the other side's threads must have gone to sleep, and one untimed call wakes
this side's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

LEAST_SAMPLE_S = 1e-3
LEAST_QUANTA = 20
WARM_UP_S = 0.2
IDLE_LOOK_S = 0.01
IDLE_LIMIT_S = 2.0
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
    seconds: list[float] = field(default_factory=list)

    def warm_up(self, sample_s: float) -> None:
        """Calls until WARM_UP_S have passed, and chooses the calls that fill sample_s."""
        best, start = math.inf, time.perf_counter()
        while time.perf_counter() - start < WARM_UP_S:
            before = time.perf_counter()
            self.call()
            best = min(best, time.perf_counter() - before)
        self.calls = max(1, math.ceil(1.2 * sample_s / max(best, 1e-9)))

    def sample(self, least_s: float) -> None:
        """Adds one sample; one that is too short for the clock is taken again with more calls."""
        wait_until_idle()
        self.call()
        while True:
            before = time.perf_counter()
            for _ in range(self.calls):
                self.call()
            elapsed = time.perf_counter() - before
            if elapsed >= least_s:
                break
            self.calls *= 2
        self.seconds.append(elapsed / self.calls)


def ratio(ours_s: Sequence[float], peer_s: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the pairs' peer / ours: above 1, ours is the faster one."""
    ratios = [peer / ours for ours, peer in zip(ours_s, peer_s, strict=True)]
    q1, median, q3 = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}


def compare(ours: Call, peer: Call, *, pairs: int, sample_s: float) -> dict[str, Any]:
    """Times both sides `pairs` times (at least 2), sample_s or a little more a sample.

    The result goes into a record as it is: raw seconds a call, the calls a
    sample, `ratio` (see above) and the clock.
    """
    quantum = clock_quantum()
    least_s = max(LEAST_SAMPLE_S, LEAST_QUANTA * quantum)
    sides = [Side(ours), Side(peer)]
    for side in sides:
        wait_until_idle()
        side.warm_up(max(sample_s, least_s))
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else reversed(sides):
            side.sample(least_s)
    return {
        "ours_s": sides[0].seconds,
        "peer_s": sides[1].seconds,
        "ours_calls": sides[0].calls,
        "peer_calls": sides[1].calls,
        "ratio": ratio(sides[0].seconds, sides[1].seconds),
        "warm_up_s": WARM_UP_S,
        "clock": "time.perf_counter",
        "quantum_s": quantum,
    }


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of ratios above 0, at least one."""
    return math.exp(statistics.fmean(math.log(value) for value in ratios))
