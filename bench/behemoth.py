"""473 million parameters in Node and in a Chromium tab: python bench/behemoth.py

The preset behemoth is refused by 32-bit builds, before anything is allocated and when it is
forced, gets 64-bit memory by need, trains, is saved through a stream, freed, loaded again
and trained on. Its losses are the native core's. Takes about ten minutes, 10 GB of memory
and 6 GB of disk; --preset NAME --dry show that the script works.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import record
import tab_page
from command import relative
from tabgpt.backends.native import NativeSession
from tabgpt.config import Recipe, preset

BUILD = "relaxed-threads"
THREADS = 2
VOCAB = 256  # bytes
STEPS = 2
LOSS_BOUND = 1e-5
"""Relative, of each loss against the native core's."""
MEMORY_BOUND = 1.15
"""Peak memory with saving and loading against training alone: a copy of the model would be 1.8."""

Ask = Callable[..., Any]


def job_of(recipe: Recipe) -> dict[str, Any]:
    model, train = recipe.model(VOCAB).to_dict(), recipe.train.to_dict()
    return {
        "build": BUILD,
        "threads": THREADS,
        "config": {**model, **train},
        "tokens": np.random.default_rng(7).integers(VOCAB, size=20_000).tolist(),
        "info": {
            "model": model,
            "tokenizer": {"kind": "byte"},
            "train": train,
            "run": recipe.run.to_dict(),
            "corpus": None,
            "step": 0,
        },
        "steps": STEPS,
    }


def peak_bytes(process: int) -> int:
    """The most memory that a process has held, shared pages included (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def native(name: str) -> dict[str, Any]:
    """Losses and seconds a step of the native core, one step more than the others make at first."""
    recipe = preset(name)
    job = job_of(recipe)
    begun = time.perf_counter()
    tokens = np.array(job["tokens"], np.uint32)
    session = NativeSession(
        recipe.model(VOCAB), recipe.train, tokens, mode="train", threads=THREADS
    )
    allocated = time.perf_counter()
    session.init_weights()
    losses, seconds = [], []
    for _ in range(STEPS + 1):
        begins = time.perf_counter()
        losses.append(session.step().loss)
        seconds.append(time.perf_counter() - begins)
    peak = peak_bytes(multiprocessing.current_process().pid or 0)
    return {
        "where": "native",
        "losses": losses,
        "step_s": seconds,
        "allocate_s": allocated - begun,
        "peak_bytes": peak,
    }


def in_its_own_process(work: Callable[[str], dict[str, Any]], name: str) -> dict[str, Any]:
    """So that its memory is given back."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, name).result()


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line by process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            found[int(folder.name)] = parent, (folder / "cmdline").read_text().replace("\0", " ")
    return found


def largest_peak(under: Callable[[int, str], bool]) -> int:
    """Of all processes that are or come from one that `under` knows by its number and command."""
    every = processes()

    def belongs(process: int) -> bool:
        while process in every:
            parent, line = every[process]
            if under(process, line):
                return True
            process = parent
        return False

    peaks = [0]
    for process in filter(belongs, every):
        with contextlib.suppress(OSError, AssertionError):
            peaks.append(peak_bytes(process))
    return max(peaks)


@contextlib.contextmanager
def in_node() -> Iterator[tuple[Ask, Callable[[], int], str]]:
    """What asks a Node process, its peak memory, and its name."""
    script = str(record.ROOT / "bench/large/node.ts")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(tab_page.NODE), script, f"{folder}/run"]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            sink, source = process.stdin, process.stdout

            def ask(**job: Any) -> Any:
                sink.write(json.dumps(job) + "\n")
                sink.flush()
                answer = json.loads(source.readline())
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

            yield ask, lambda: largest_peak(lambda number, _: number == process.pid), "node"
            sink.close()


@contextlib.contextmanager
def in_tab() -> Iterator[tuple[Ask, Callable[[], int], str]]:
    """The same of a tab; its profile lies on the disk, or its private files would be memory."""
    with (
        tempfile.TemporaryDirectory() as profile,
        tab_page.open_with_profile(["large"], profile) as page,
    ):
        yield (
            lambda **job: page.ask("large", **job),
            lambda: largest_peak(lambda _, line: f"--user-data-dir={profile}" in line),
            page.browser,
        )


def life(where: str, ask: Ask, peak: Callable[[], int], recipe: Recipe) -> dict[str, Any]:
    """All phases of one model; a row of the record."""

    def phase(do: str, **changed: Any) -> Any:
        begun = time.perf_counter()
        answer = ask(**{**job_of(recipe), "do": do, **changed})
        print(f"{where:7s} {do:7s} {time.perf_counter() - begun:6.1f} s  {answer}", flush=True)
        return answer

    refusal = phase("refuse")
    opened = phase("open")
    steps = phase("train")
    trained_peak = peak()
    saved = phase("save")
    saved_peak = peak()
    after = phase("train", steps=1)
    loaded = phase("load")
    again = phase("train", steps=1)
    closed = phase("close")
    return {
        "where": where,
        "build": opened["build"],
        "parameters": refusal["parameters"],
        "plan_bytes": refusal["planBytes"],
        "refused_32": refusal["refused"],
        "forced_32": refusal["forced"],
        "memory_bytes": opened["memoryBytes"],
        "allocate_s": opened["allocateSeconds"],
        "init_s": opened["initSeconds"],
        "losses": [step["loss"] for step in [*steps, *after]],
        "loss_after_load": again[0]["loss"],
        "step_s": [step["seconds"] for step in [*steps, *after]],
        "checkpoint_bytes": saved["bytes"],
        "save_s": saved["seconds"],
        "load_s": loaded["seconds"],
        "held_bytes_freed": loaded["heapBytesBetween"],
        "held_bytes_closed": closed["heapBytes"],
        "training_peak_bytes": trained_peak,
        "saving_peak_bytes": saved_peak,
        "peak_bytes": max(saved_peak, peak()),
    }


def verdict(results: list[dict[str, Any]], needs_64: bool) -> tuple[bool, str]:
    """Whether it is one model everywhere, refused where it must be, and never held twice."""
    core, *others = results
    worst = max(relative(row["losses"], core["losses"]) for row in others)
    exact = all(row["loss_after_load"] == row["losses"][-1] for row in others)
    memory = max(row["peak_bytes"] / row["training_peak_bytes"] for row in others)
    freed = max(row["held_bytes_closed"] / row["plan_bytes"] for row in others)
    refused = all(row["refused_32"] and all(row["forced_32"]) for row in others)
    ok = bool(worst <= LOSS_BOUND and exact and memory <= MEMORY_BOUND and freed < 0.01)
    ok = ok and refused == needs_64
    why = (
        f"losses differ from the native core's by at most {worst:.1e} (bound {LOSS_BOUND:g}), "
        f"relative; the step after loading {'is equal bit for bit' if exact else 'differs'}; "
        f"saving and loading take {100 * (memory - 1):.0f} % more memory than training; 32-bit "
        f"builds {'refuse it' if refused else 'do not refuse it'}"
    )
    return ok, why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="behemoth", help="a smaller one, to try the script")
    parser.add_argument("--dry", action="store_true", help="write no record")
    options = parser.parse_args()
    recipe = preset(options.preset)
    results = [in_its_own_process(native, options.preset)]
    print(results[0], flush=True)
    machine = {}
    for where, host in (("node", in_node), ("tab", in_tab)):
        with host() as (ask, peak, version):
            results.append(life(where, ask, peak, recipe))
            if where == "tab":
                machine["browser"] = version
    ok, why = verdict(results, needs_64=options.preset == "behemoth")
    print(why)
    if not options.dry:
        record.write("behemoth", "python bench/behemoth.py", results, ok=ok, why=why, **machine)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
