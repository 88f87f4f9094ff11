"""metrics.jsonl: one line of JSON a step, written as it happens, cut back on resume.

`step` is the number of optimizer steps done, so the first line says 1 and the
last line of a checkpoint's run says the checkpoint's own step. `loss`, `lr` and
`grad_norm` (before clipping) are of that step; `val_loss` is of the weights after
it, where they were evaluated (a step that was saved while its evaluation ran gets
it when the run is resumed); `tokens_per_s` is of the step alone, and `wall_s` the
seconds that the run has worked, evaluation and saving included. Lines that cannot be
written (a full disk) wait in memory and are tried again with every step; no checkpoint
is committed before the lines of its steps are on the disk, so the file has no holes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import CheckpointError
from .safetensors_file import commit, remove


@dataclass(frozen=True)
class Metrics:
    """A line of metrics.jsonl."""

    step: int
    loss: float
    lr: float
    grad_norm: float
    tokens_per_s: float
    wall_s: float
    val_loss: float | None = None

    def to_json(self) -> str:
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})


@contextmanager
def _named_errors(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"cannot {what} {path}: {error.strerror}; check its permissions and the free space"
        ) from None


class MetricsFile:
    """Appends lines; each reaches the system at once, so that a killed run keeps it.

    A call that cannot write raises CheckpointError; what it was given waits for the next one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._waiting = b""
        """Lines that are not in the file yet; the first may be there in part."""
        self._amended: dict[int, Metrics] = {}
        """By step: lines that are to take the place of those in the file."""
        self._doubtful = False
        """The system failed to flush the file, and may have forgotten what it was to flush."""
        self.flush()

    def append(self, metrics: Metrics) -> None:
        self._waiting += metrics.to_json().encode() + b"\n"
        self.flush()

    def amend(self, metrics: Metrics) -> None:
        """Replaces the line of the same step: its evaluation came later."""
        self._amended[metrics.step] = metrics
        self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        with _named_errors("write", self._path):
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._descriptor = os.open(self._path, flags, 0o666)
            while self._waiting:
                self._waiting = self._waiting[os.write(self._descriptor, self._waiting) :]
        if self._amended or self._doubtful:
            lines = read(self._path)
            assert self._amended.keys() <= {line.step for line in lines}
            self.close()  # the next call opens the new file
            _replace(self._path, [self._amended.get(line.step, line) for line in lines])
            self._amended, self._doubtful = {}, False

    def sync(self) -> None:
        """Onto the disk: called before a checkpoint of the same step is committed."""
        self.flush()
        if self._descriptor is not None:  # else the whole file has just been replaced
            self._doubtful = True
            with _named_errors("write", self._path):
                os.fsync(self._descriptor)
            self._doubtful = False

    def close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with suppress(OSError):  # what was written is there; what was not has been reported
                os.close(descriptor)


def read(path: Path) -> list[Metrics]:
    """Every whole line; a last line that a kill has cut short is left out."""
    if not path.exists():
        return []
    with _named_errors("read", path):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    read_lines = []
    for number, line in enumerate(lines, 1):
        try:
            if line:
                read_lines.append(_parsed(line))
        except (ValueError, TypeError, RecursionError) as error:
            if number < len(lines):
                raise CheckpointError(
                    f"{path}, line {number}, is no line of metrics ({error}): {line[:80]!r}"
                ) from None
    return read_lines


def _parsed(line: str) -> Metrics:
    metrics = Metrics(**json.loads(line))
    for name, value in asdict(metrics).items():
        known = int if name == "step" else (int, float, type(None) if name == "val_loss" else float)
        if isinstance(value, bool) or not isinstance(value, known):
            raise ValueError(f"{name} is {value!r}")
    return metrics


def cut_back(path: Path, step: int) -> Metrics | None:
    """Drops every line after `step`; returns the last one kept."""
    kept = [metrics for metrics in read(path) if metrics.step <= step]
    _replace(path, kept)
    return kept[-1] if kept else None


def _replace(path: Path, lines: Iterable[Metrics]) -> None:
    """Atomically, the whole file."""
    partial = path.with_name(f".{path.name}.partial")
    with _named_errors("write", path):
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(metrics.to_json() + "\n" for metrics in lines)
            commit(partial, path)
        except OSError:
            remove(partial)
            raise
