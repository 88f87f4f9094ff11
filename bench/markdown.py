"""Pieces of the README's tables: ratios, shapes, heads, and where a figure comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pairs

Row = dict[str, Any]


def machine_of(data: dict[str, Any]) -> str:
    """Processor, cores and browser of a record."""
    machine = data["machine"]
    browser = f", {machine['browser']}" if "browser" in machine else ""
    return f"{machine['cpu']}, {machine['cores']} cores{browser}"


def source(data: dict[str, Any]) -> str:
    """The line under each table: what measured it, where and at which commit."""
    return (
        f"\n<sub>`{data['command']}` on {machine_of(data)}; commit {data['commit']},"
        f" {data['date']}; `bench/records/{data['what']}.json`</sub>\n"
    )


def ratio(rows: Iterable[Row]) -> str:
    """Geometric mean of the rows' median pair ratios, and of their quartiles."""
    ratios = [row["ratio"] for row in rows]
    median, q1, q3 = (
        pairs.geometric_mean(r[key] for r in ratios) for key in ("median", "q1", "q3")
    )
    return f"**{median:.2f}** ({q1:.2f} to {q3:.2f})"


def shape_of(row: Row) -> str:
    """M × K × N, or n³ where they are equal."""
    M, K, N = row["shape"]
    return f"{M}³" if M == K == N else f"{M} × {K} × {N}"


def thread_columns(first: str, threads: list[int]) -> str:
    """The head of a table with a column a number of threads."""
    names = [f"{n} thread{'s' * (n > 1)}" for n in threads]
    return "| " + " | ".join([first, *names]) + " |\n" + "|---" * (len(names) + 1) + "|\n"
