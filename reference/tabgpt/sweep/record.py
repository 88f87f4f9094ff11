"""A sweep's record, as bench/schema.json has it: what ran, on what, with every raw sample."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..gpu.adapter import Adapter
from .origin import commit, cpu_name
from .stage import Row, Stage

STOPPED = "; stopped before its end"
"""How a verdict ends where somebody had enough."""


def machine(adapter: Adapter) -> dict[str, Any]:
    """The machine and its GPU, with limits and features by WebGPU's names where they have one."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "adapter": adapter.name,
        "software_adapter": adapter.software,
        "limits": {name: int(value) for name, value in adapter.handle.limits.items()},
        "features": sorted(adapter.features),
    }


def verdict(rows: Sequence[Row], stopped: bool) -> dict[str, Any]:
    """Right where something was measured and nothing of it was wrong."""
    measured = [row for row in rows if not row.skipped]
    wrong = [row for row in measured if not row.ok]
    why = (
        f"{len(measured) - len(wrong)} of {len(measured)} results within their bound, "
        f"{len(rows) - len(measured)} skipped"
    )
    if wrong:
        why += "; wrong: " + ", ".join(f"{row.variant} of {row.case}" for row in wrong)
    if stopped:
        why += STOPPED
    return {"ok": bool(measured) and not wrong, "why": why}


def record(stage: Stage, rows: Sequence[Row], command: str, stopped: bool) -> dict[str, Any]:
    """The whole of it."""
    clock = stage.clock
    return {
        "schema": 1,
        "what": "kernels",
        "command": command,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(stage.adapter),
        "clock": {
            "wall": "time.perf_counter",
            "wall_quantum_s": clock.wall_quantum,
            "gpu": "timestamp-query" if clock.has_stamps else "",
            "gpu_quantum_s": clock.gpu_quantum,
        },
        "results": [row.to_dict() for row in rows],
        "verdict": verdict(rows, stopped),
    }


def write(path: Path, record: dict[str, Any]) -> None:
    """As JSON; OSError where the folder is not there."""
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
