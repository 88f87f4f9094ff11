"""A sweep's rows as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .stage import PLAIN, Row

HEAD = f"{'case':<32}{'kernel':<12}{'time':>10}{'GFLOP/s':>10}{'x naive':>9}{'of best':>9}"
PEAK_HEAD = f"{'of peak':>9}"


def duration(seconds: float) -> str:
    """Three digits and a unit.

    >>> duration(0.00123)
    '1.23 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def line(row: Row, rows: Sequence[Row], peak: float | None) -> str:
    """A row among those of its case; peak: operations a second, where the person told it."""
    name = row.variant if row.kind == "kernel" else f"step, {row.variant}"
    text = f"{row.case:<32}{name:<12}"
    notes = ["software"] if row.software else []
    if row.skipped:
        return f"{text}  not measured: {row.skipped}" + "".join(f"  [{note}]" for note in notes)
    if row.seconds is None or row.rate is None:
        error = "not finite" if row.error is None else f"{row.error:.3g} times its bound"
        return f"{text}  WRONG, error {error}: its speed is not shown"
    same = [other for other in rows if other.case == row.case and other.kind == row.kind]
    plain = next((other.rate for other in same if other.variant in PLAIN and other.rate), None)
    best = max(other.rate or 0 for other in same)
    text += f"{duration(row.seconds):>10}{row.rate / 1e9:>10.4g}"
    text += f"{row.rate / plain:>9.2f}" if plain and row.kind == "kernel" else f"{'':>9}"
    text += f"{row.rate / best:>9.0%}"
    if peak is not None:
        text += f"{row.rate / peak:>9.1%}"
    if row.tokens is not None:
        notes.append(f"{row.tokens / row.seconds:,.0f} tokens/s")
    if row.disagree:
        notes.append("timestamps and wall clock disagree")
    return text + "".join(f"  [{note}]" for note in notes)
