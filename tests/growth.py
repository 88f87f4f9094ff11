"""What a run must be whose WASM memory grew under its threads (tests/wasm/growth.ts)."""

from __future__ import annotations

from typing import Any

BUILDS = ("simd-threads", "relaxed-threads")


def judge(growth: dict[str, Any]) -> None:
    assert growth["startBytes"] < growth["openBytes"] < growth["endBytes"]
    assert growth["stepsThatGrew"] >= 10
    assert growth["same"]  # bit for bit as in a memory that was large enough
    assert growth["worst"] <= growth["bound"]
