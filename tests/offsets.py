"""What must hold of a WASM build in high memory (tests/wasm/offsets.ts)."""

from __future__ import annotations

from typing import Any

GIB = 2**30
CASES = [
    ("relaxed-threads", 2 * GIB),
    ("simd-threads-64", 2 * GIB),
    ("relaxed-threads-64", 4 * GIB),
]
"""A build, and the address that its memory is used around."""


def judge(offsets: dict[str, Any], build: str, edge: int) -> None:
    assert offsets["lowest"] < edge < offsets["highest"]
    assert offsets["same"]  # bit for bit as in low memory
    assert offsets["wrong"] == []
    assert (offsets["span"] > 4 * GIB) == build.endswith("-64")
