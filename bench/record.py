"""Writes and reads bench records: JSON under one schema, named after what they measure.

A record says what was measured, on what, at which commit, by which command, with
the raw results and a verdict from the same run. Nothing else may feed a table.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
from tabgpt.sweep.origin import commit, cpu_name

ROOT = Path(__file__).resolve().parent.parent
RECORDS = Path(__file__).resolve().parent / "records"
SCHEMA = json.loads((Path(__file__).resolve().parent / "schema.json").read_text())


def machine(**extra: Any) -> dict[str, Any]:
    """Identity of the machine that measures; `extra` adds browser or adapter."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **extra,
    }


def write(
    what: str,
    command: str,
    results: list[dict[str, Any]],
    *,
    ok: bool,
    why: str,
    corpus: dict[str, str] | None = None,
    clock: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    **machine_extra: Any,
) -> Path:
    """Validates one record and writes it to {folder}/{what}.json; the folder is records/.

    Raises jsonschema.ValidationError when the record is not one.
    """
    record: dict[str, Any] = {
        "schema": 1,
        "what": what,
        "command": command,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(**machine_extra),
        "results": results,
        "verdict": {"ok": ok, "why": why},
    }
    if corpus is not None:
        record["corpus"] = corpus
    if clock is not None:
        record["clock"] = dict(clock)
    jsonschema.validate(record, SCHEMA)
    folder = folder or RECORDS
    folder.mkdir(exist_ok=True)
    path = folder / f"{what}.json"
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    return path


def read(what: str) -> dict[str, Any]:
    """The record of that name, validated; FileNotFoundError names the script to run otherwise."""
    path = RECORDS / f"{what}.json"
    if not path.exists():
        raise FileNotFoundError(f"no record {path.name}: run the script in bench/ that writes it")
    record: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(record, SCHEMA)
    return record
