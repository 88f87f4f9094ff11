"""Python files run in Node's Pyodide, on what `make pyodide` laid out for the page /python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYOUT = ROOT / "browser" / "public" / "python"
NODE = Path(sys.executable).parent / "node"


def packages() -> dict[str, str]:
    """What the layout holds, by name."""
    listed = LAYOUT / "packages.json"
    assert listed.is_file(), "nothing is built for Pyodide: run `make pyodide`"
    held: dict[str, str] = json.loads(listed.read_text())["packages"]
    return held


def command(script: Path, needed: list[str], *arguments: str) -> list[str]:
    missing = set(needed) - set(packages())
    assert not missing, f"{sorted(missing)} is not built for Pyodide: run `make pyodide-numpy`"
    runner = ROOT / "tests" / "pyodide" / "run.mjs"
    return [str(NODE), str(runner), str(LAYOUT), ",".join(needed), str(script), *arguments]


def run(script: Path, needed: list[str], *arguments: str, stdin: str = "") -> str:
    """The script's output; its failure is an error with what it wrote."""
    done = subprocess.run(
        command(script, needed, *arguments), input=stdin, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
