"""Where a record was made: the processor and the source's commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parents[2]


def cpu_name() -> str:
    """The processor's model name; the architecture where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str:
    """The source's commit, `+dirty` where it was changed; "unknown" outside a git checkout."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=_SOURCE, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        if not Path(git("rev-parse", "--show-toplevel"), "reference", "tabgpt").is_dir():
            return "unknown"
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", "..", ":!../bench/records"
        )
        return git("rev-parse", "--short=12", "HEAD") + ("+dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
