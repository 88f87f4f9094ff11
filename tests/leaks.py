#!/usr/bin/env python3
"""What a process holds after each of four rounds of 200 steps, as JSON: heap, files, threads.

    python tests/leaks.py session native    opens a session, trains, evaluates, samples, closes
    python tests/leaks.py run native        a run in a folder that is saved, closed and resumed

The first round warms up; the other three are restarts, after which nothing may have grown.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy, whose threads are not what is counted

import numpy as np
import tabgpt
import tiny_run
from tabgpt.backends import open_session
from tabgpt.config import ModelConfig, TrainConfig

STEPS = 200
ROUNDS = 4
SIZES = {
    "native": {"ctx": 32, "n_layer": 2, "n_head": 2, "d_model": 32, "batch_size": 4},
    "numpy": {"ctx": 8, "n_layer": 2, "n_head": 2, "d_model": 8, "batch_size": 2},
}


class MallInfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
    """hblkhd is the fifth, uordblks the eighth."""


def threads(process: Path) -> int:
    """The fewest in a tenth of a second: a joined thread stands in the list for a moment yet."""
    counts = []
    for _ in range(10):
        counts.append(sum(1 for _ in (process / "task").iterdir()))
        time.sleep(0.01)
    return min(counts)


def heap() -> int:
    """Bytes that malloc has given out; the core's arenas are mappings of their own."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
    info = mallinfo()
    return int(info.e + info.h)


def held() -> dict[str, int]:
    gc.collect()
    process = Path("/proc/self")
    mapped, resident = (process / "statm").read_text().split()[:2]
    return {
        "heap": heap(),
        "mapped": int(mapped) * os.sysconf("SC_PAGESIZE"),
        "resident": int(resident) * os.sysconf("SC_PAGESIZE"),
        "files": sum(1 for _ in (process / "fd").iterdir()),
        "threads": threads(process),
    }


def session_round(backend: str, _: Path) -> dict[str, int]:
    """What it holds after 20 steps and after the last, as early and late."""
    sizes = dict(SIZES[backend])
    train = TrainConfig(batch_size=sizes.pop("batch_size"), grad_accum=2, steps=STEPS)
    config = ModelConfig(vocab_size=65, dropout=0.1, **sizes)
    tokens = np.random.default_rng(1).integers(0, 65, 5000)
    session = open_session(backend, config, train, tokens, "train", threads=2)
    session.init_weights()
    more = {}
    for step in range(1, STEPS + 1):
        session.step()
        if step in (20, STEPS):
            when = "early" if step == 20 else "late"
            more |= {f"{when} {kind}": n for kind, n in held().items()}
    session.evaluate("val", 3)
    session.logits(tokens[: config.ctx].reshape(1, -1))
    list(islice(session.generate([1, 2], 1.0), 20))
    session.close()
    return more


def run_round(backend: str, folder: Path) -> dict[str, int]:
    out = folder / "run"
    if out.exists():
        run = tabgpt.resume(out, threads=2)
    else:
        text = folder / "text.txt"
        text.write_text(tiny_run.TEXT * 4, encoding="utf-8")
        sizes = {**SIZES[backend], "autosave_seconds": 0.05, "steps": STEPS * ROUNDS}
        recipe = tiny_run.recipe(**sizes, eval_interval=50)
        run = tabgpt.train(recipe, text, backend=backend, threads=2, out=out)
    for _ in islice(run, STEPS):
        pass
    run.save()
    run.close()
    return {}


def main() -> None:
    work: dict[str, Callable[[str, Path], dict[str, int]]]
    work = {"session": session_round, "run": run_round}
    what, backend = sys.argv[1:]
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            more = work[what](backend, Path(folder))
            rounds.append(held() | more)
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
