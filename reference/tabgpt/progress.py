"""What a person sees while a run trains: a bar with ETA, or lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .metrics import Metrics

_LINE_SECONDS = 10.0


class Report:
    """Shows metrics as they come; `say` prints a line between them."""

    def __init__(self, first_step: int, steps: int) -> None:
        self._steps = steps
        self._console = Console(highlight=False, soft_wrap=True)
        self._first_step = first_step
        self._began = time.monotonic()
        self._line_at = float("-inf")
        self._progress: Progress | None = None
        if self._console.is_terminal:
            self._progress = Progress(
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._progress.add_task("", total=steps, completed=first_step)
            self._progress.start()

    def show(self, metrics: Metrics) -> None:
        loss, speed = f"loss {metrics.loss:.4f}", f"{metrics.tokens_per_s:,.0f} tokens/s"
        val = "" if metrics.val_loss is None else f"  val_loss {metrics.val_loss:.4f}"
        if self._progress is not None:
            self._progress.update(
                self._task, completed=metrics.step, description=f"{loss}  {speed}"
            )
        due = time.monotonic() - self._line_at >= _LINE_SECONDS and self._progress is None
        if val or due or metrics.step == self._steps:
            self._line_at = time.monotonic()
            self.say(
                f"step {metrics.step}/{self._steps}  {loss}{val}  lr {metrics.lr:.2e}  "
                f"norm {metrics.grad_norm:.2f}  {speed}{self._eta(metrics.step)}"
            )

    def _eta(self, step: int) -> str:
        done = step - self._first_step
        if self._progress is not None or step == self._steps or done < 1:
            return ""
        seconds = (time.monotonic() - self._began) / done * (self._steps - step)
        return f"  ETA {timedelta(seconds=round(seconds))}"

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def note(self, text: str) -> None:
        """About the run's files, where errors go: a log may lie on the same full disk."""
        if self._progress is not None:
            self.say(f"note: {text}")
        else:
            print(f"note: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
