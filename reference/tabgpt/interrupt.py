"""Asking a command to end: Ctrl-C, SIGTERM, or a closed terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


class Interrupt:
    """Once: what runs looks at `signal` and ends at a good place. Ctrl-C again: at once."""

    def __init__(self, may_wait: Callable[[], bool] = lambda: True) -> None:
        """may_wait: whether it will look soon; otherwise the first one raises KeyboardInterrupt."""
        self.signal: int | None = None
        self._may_wait = may_wait
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:  # not under nohup
            signal.signal(hangup, self._note)

    @property
    def asked(self) -> bool:
        return self.signal is not None

    @property
    def status(self) -> int:
        """A command's exit status where it was asked to end, as shells have it."""
        assert self.signal is not None
        return 128 + self.signal

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first, self.signal = self.signal is None, number
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if first and not self._may_wait():
            raise KeyboardInterrupt
