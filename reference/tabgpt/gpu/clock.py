"""How long work on a device takes: by its own timestamps, where it has them, and by the wall."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
import wgpu

from .executor import Executor

FEATURE = "timestamp-query"
_BYTES = 16
"""A begin and an end, 8 bytes each."""


class Times(NamedTuple):
    """Seconds. gpu is None without timestamps, or where they ran backwards, as some drivers' do."""

    gpu: float | None
    wall: float


def wall_quantum() -> float:
    """Smallest step of time.perf_counter that shows, in seconds."""
    steps: list[float] = []
    while len(steps) < 1000:
        before = time.perf_counter()
        while (now := time.perf_counter()) == before:
            pass
        steps.append(now - before)
    return min(steps)


def _seconds_a_tick(device: Any) -> float:
    """wgpu-native's timestamps count ticks; wgpu-py has no public name for their length."""
    from wgpu.backends.wgpu_native._api import libf

    return float(libf.wgpuQueueGetTimestampPeriod(device.queue._internal)) * 1e-9


class Clock:
    """Of one device, which has nothing else to do while it measures."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self.has_stamps = FEATURE in device.features
        self.wall_quantum = wall_quantum()
        self._divisor = 0
        if self.has_stamps:
            self._tick = _seconds_a_tick(device)
            self._stamps = device.create_query_set(type="timestamp", count=2)
        usage = wgpu.BufferUsage
        self._resolved = device.create_buffer(
            size=_BYTES, usage=usage.QUERY_RESOLVE | usage.COPY_SRC | usage.COPY_DST
        )

    @property
    def gpu_quantum(self) -> float | None:
        """Seconds that every timestamp seen so far is a multiple of; None before the first."""
        return self._divisor * self._tick if self._divisor else None

    @property
    def quantum(self) -> float:
        """Of the clock that decides."""
        return (self.gpu_quantum or 0.0) if self.has_stamps else self.wall_quantum

    def time(self, executor: Executor, program: str, calls: int) -> Times:
        """From the submit of `calls` calls until their end is known here."""
        before = time.perf_counter()
        executor.run_timed(program, calls, self._stamps if self.has_stamps else None)
        if self.has_stamps:
            encoder = self._device.create_command_encoder()
            encoder.resolve_query_set(self._stamps, 0, 2, self._resolved, 0)
            self._device.queue.submit([encoder.finish()])
        ticks = np.frombuffer(self._device.queue.read_buffer(self._resolved), np.uint64)
        wall = time.perf_counter() - before
        if not self.has_stamps:
            return Times(None, wall)
        begin, end = int(ticks[0]), int(ticks[1])
        self._divisor = math.gcd(self._divisor, begin, end)
        return Times((end - begin) * self._tick if end > begin else None, wall)

    def destroy(self) -> None:
        self._resolved.destroy()
