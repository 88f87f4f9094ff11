"""metrics.jsonl: one line of JSON a step, written as it happens, cut back on resume.

`step` is the number of optimizer steps done, so the first line says 1 and the
last line of a checkpoint's run says the checkpoint's own step. `loss`, `lr` and
`grad_norm` (before clipping) are of that step; `val_loss` is of the weights after
it, where they were evaluated (a step that was saved while its evaluation ran gets
it when the run is resumed); `tokens_per_s` is of the step alone, and `wall_s` the
seconds that the run has worked, evaluation and saving included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import CheckpointError
from .safetensors_file import commit

METRICS_FILE = "metrics.jsonl"


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
    """Appends lines; each reaches the system at once, so that a killed run keeps it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        with _named_errors("write", self._path):
            self._file = self._path.open("a", encoding="utf-8", newline="\n")

    def append(self, metrics: Metrics) -> None:
        with _named_errors("write", self._path):
            self._file.write(metrics.to_json() + "\n")
            self._file.flush()

    def amend(self, metrics: Metrics) -> None:
        """Replaces the last line, which is of the same step: its evaluation came later."""
        lines = read(self._path)
        assert lines and lines[-1].step == metrics.step
        self._file.close()
        _replace(self._path, [*lines[:-1], metrics])
        self._open()

    def sync(self) -> None:
        """Onto the disk: called before a checkpoint of the same step is committed."""
        with _named_errors("write", self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # of a line that could not be written: append has said so
            self._file.close()


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
                read_lines.append(Metrics(**json.loads(line)))
        except (ValueError, TypeError) as error:
            if number < len(lines):
                raise CheckpointError(
                    f"{path}, line {number}, is no line of metrics ({error}): {line[:80]!r}"
                ) from None
    return read_lines


def cut_back(path: Path, step: int) -> Metrics | None:
    """Drops every line after `step`; returns the last one kept."""
    kept = [metrics for metrics in read(path) if metrics.step <= step]
    _replace(path, kept)
    return kept[-1] if kept else None


def _replace(path: Path, lines: Iterable[Metrics]) -> None:
    """Atomically, the whole file."""
    partial = path.with_name(f".{path.name}.partial")
    with _named_errors("write", path):
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(metrics.to_json() + "\n" for metrics in lines)
        commit(partial, path)
