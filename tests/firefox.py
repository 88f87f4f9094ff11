"""The page in Firefox: 20 steps on WebGPU and on WASM, each loss against the oracle's.

`python tests/firefox.py`, after `make site vulkan`; not a part of `make test`. Firefox computes
WebGPU by Naga, as wgpu-py does, in a browser that people have. The page trains on no GPU that has
not passed its self-check, forward and backward, so the run shows that too. The Firefox is
$FIREFOX, else firefox-esr or firefox on PATH. Nothing is skipped: what is missing is an error
that says what to install.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import page_run
import tiny_run
import trajectory
import vulkan
from lab_browser import SITE, serve_lab
from playground import metrics

DRIVER = Path(__file__).with_suffix(".ts")
NAMES = ("firefox-esr", "firefox")
HOW = (
    "Install Firefox with the system's package manager (Debian: apt-get install firefox-esr), "
    "or set FIREFOX to its path."
)
STEPS = 20
LIMIT_S = 300
DEVICES = {"gpu": (trajectory.GPU_BOUND, "^GPU, "), "cpu": (trajectory.BOUND, "^wasm-")}
"""By device: the largest relative difference of a loss, and what the page says it trained on."""


def find_firefox() -> str:
    named = os.environ.get("FIREFOX")
    found = next(filter(None, map(shutil.which, (named,) if named else NAMES)), None)
    if found is None:
        why = f"FIREFOX is '{named}', which is not a program" if named else "there is none on PATH"
        sys.exit(f"firefox: {why}. {HOW}")
    return found


def train(firefox: str, url: str, device: str, folder: Path) -> tuple[dict[str, str], list[Any]]:
    """A run on the page: what it says of its engine, and the lines of metrics.jsonl."""
    job = {
        "firefox": firefox,
        "url": url,
        "folder": str(folder),
        "device": device,
        "text": tiny_run.TEXT,
        "fields": page_run.recipe(STEPS),
    }
    done = subprocess.run(
        ["node", str(DRIVER), json.dumps(job)],
        env={**os.environ, **vulkan.environment()},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        sys.exit(f"firefox: {device}: the run did not end.\n{done.stderr.strip()}")
    (archive,) = folder.glob("*.zip")
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    return json.loads(done.stdout), metrics(folder)


def difference(lines: list[Any], expected: np.ndarray) -> float:
    """The largest relative one, of the losses and of the validation loss at the end."""
    got = np.array([*(line["loss"] for line in lines), lines[-1]["val_loss"]])
    if got.shape != expected.shape:
        sys.exit(f"firefox: the run has {len(lines)} steps instead of {STEPS}")
    return float(np.max(abs(got - expected) / expected))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE, help="the built site")
    site = parser.parse_args().site
    firefox = find_firefox()
    losses, val_loss = page_run.oracle(STEPS)
    expected = np.append(losses, val_loss)
    failed = False
    for device in DEVICES:
        with serve_lab(site) as url, tempfile.TemporaryDirectory() as folder:
            said, lines = train(firefox, url, device, Path(folder))
        bound, engine = DEVICES[device]
        worst = difference(lines, expected)
        good = worst <= bound and re.search(engine, said["engine"]) is not None
        failed |= not good
        print(f"{said['version']}, {said['engine']}: {'passed' if good else 'FAILED'}")
        print(f"  {len(lines)} steps, losses within {worst:.1e} of the oracle's; bound {bound:g}")
        print(f"  the page: {said['gpu']}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
