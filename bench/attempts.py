"""The attempt ledger, attempts.jsonl: python bench/attempts.py lists it.

One JSON object a line under attempts.schema.json: every optimisation that was
tried, what it should have moved and by how much, what it did move, kept or not,
and why. Lines are added at the end; negative results stay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

LEDGER = Path(__file__).resolve().parent / "attempts.jsonl"
SCHEMA = json.loads(LEDGER.with_name("attempts.schema.json").read_text())


def read(path: Path = LEDGER) -> list[dict[str, Any]]:
    """All attempts, oldest first; ValueError names the line that is not one."""
    attempts = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            attempt = json.loads(line)
            jsonschema.validate(attempt, SCHEMA)
        except (json.JSONDecodeError, jsonschema.ValidationError) as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from error
        attempts.append(attempt)
    return attempts


def main() -> None:
    print("predicted  measured  kept  area: idea")
    for attempt in read():
        print(
            f"{attempt['prediction']['ratio']:9.2f} {attempt['measured']['ratio']:9.2f}"
            f"  {'yes' if attempt['kept'] else 'no':4s}  {attempt['area']}: {attempt['idea']}"
        )


if __name__ == "__main__":
    main()
