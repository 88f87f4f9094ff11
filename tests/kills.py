#!/usr/bin/env python3
"""Kills training runs; every one must then go on to the end of a run that was never killed.

    python tests/kills.py --count 200                   SIGKILL at random moments
    python tests/kills.py --count 200 --backend numpy
    python tests/kills.py --points                      at every call that touches the folder

--record writes bench/records/kills-BACKEND.json. A run saves every 5 ms, so that many kills fall
into a save. After each kill the checkpoint must be whole and have the lines of its steps; at the
end lines, weights, moments and names of files must be those of the whole run, bit for bit. Runs
are forked from one process that has loaded everything, so a kill comes as often in their first
steps as in their last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy: a fork leaves its threads behind
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import tabgpt  # noqa: E402
import tiny_run  # noqa: E402
from tabgpt import checkpoint as checkpoints  # noqa: E402
from tabgpt.config import Recipe  # noqa: E402

STEPS = 120


# -- runs in processes of their own ----------------------------------------------------------------


def forked(work: Callable[[], object]) -> int:
    """The id of a process that does the work and ends; its traceback on stderr where it fails."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended(child: int) -> int:
    """Its exit status; -9 where it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def finish(work: Callable[[], object]) -> None:
    status = ended(forked(work))
    assert status == 0, f"the run ended with {status}"


class Scenario:
    """A run that can be started in a folder, and gone on with after a kill at any moment."""

    def __init__(self, backend: str, recipe: Recipe, text: Path) -> None:
        self.backend, self.recipe, self.text = backend, recipe, text

    def start(self, out: Path, overwrite: bool = False) -> None:
        run = tabgpt.train(
            self.recipe, self.text, backend=self.backend, threads=1, out=out, overwrite=overwrite
        )
        for _ in run:
            pass

    def go_on(self, out: Path) -> None:
        """Resumes, or starts where the kill came before the first checkpoint."""
        if not (out / checkpoints.MODEL_FILE).exists():
            return self.start(out)
        for _ in tabgpt.resume(out, threads=1):
            pass


def scenario(backend: str, text: Path, **overrides: Any) -> Scenario:
    text.write_text(tiny_run.TEXT, encoding="utf-8")
    often = {"steps": STEPS, "autosave_seconds": 0.005, "eval_interval": 40}
    return Scenario(backend, tiny_run.recipe(**{**often, **overrides}), text)


# -- what must hold --------------------------------------------------------------------------------


def lines_of(out: Path) -> list[dict[str, float]]:
    """Every whole line of metrics.jsonl but its times."""
    file = out / checkpoints.METRICS_FILE
    raw = file.read_text().splitlines(keepends=True) if file.exists() else []
    lines = [json.loads(line) for line in raw if line.endswith("\n")]
    return [{k: v for k, v in m.items() if k not in ("wall_s", "tokens_per_s")} for m in lines]


def is_whole(out: Path, lines: list[dict[str, float]]) -> bool:
    """After a kill: no checkpoint yet, or a sound one, with these lines up to its step."""
    if not (out / checkpoints.MODEL_FILE).exists():
        return True
    step = checkpoints.load(out, moments=True).step
    return lines_of(out)[:step] == lines[:step]


def contents(out: Path) -> dict[str, object]:
    """Of a finished run: files by name, hidden ones too."""
    return {
        path.name: lines_of(out) if path.name == checkpoints.METRICS_FILE else path.read_bytes()
        for path in out.iterdir()
    }


def assert_same(found: dict[str, object], whole: dict[str, object], what: str) -> None:
    assert sorted(found) == sorted(whole), f"{what}: {sorted(found)}, not {sorted(whole)}"
    differing = [name for name in whole if found[name] != whole[name]]
    assert not differing, f"{what}: {differing} differ"


def left_behind(out: Path) -> Iterator[str]:
    """What a kill came in the middle of."""
    names = [path.name for path in out.iterdir()] if out.exists() else []
    if checkpoints.MODEL_FILE not in names:
        yield "before the first checkpoint"
    if any(name.endswith(".partial") for name in names):
        yield "in the writing of a file"
    if sum(name.startswith("optimizer-") for name in names) > 1:
        yield "between a save's moments and its end"
    if checkpoints.METRICS_FILE in names:
        raw = (out / checkpoints.METRICS_FILE).read_bytes()
        if raw and not raw.endswith(b"\n"):
            yield "in the writing of a line"


# -- random moments --------------------------------------------------------------------------------


def random_kills(folder: Path, backend: str, count: int, seed: str) -> dict[str, Any]:
    """Kills run after run, `count` times; AssertionError where a kill was not survived."""
    made = scenario(backend, folder / "text.txt")
    began = time.monotonic()
    finish(partial(made.start, folder / "whole"))
    seconds_a_run = time.monotonic() - began
    whole, lines = contents(folder / "whole"), lines_of(folder / "whole")
    rng = random.Random(seed)
    moments: Counter[str] = Counter()
    kills = runs = 0
    while kills < count:
        out = folder / f"run-{runs}"
        while kills < count:
            child = forked(partial(made.go_on, out))
            if rng.random() < 0.7:
                wait_for_lines(out, len(lines_of(out)) + rng.randint(1, STEPS // 4), child)
            time.sleep(rng.random() * rng.choice([0.001, 0.01, seconds_a_run / 4]))
            os.kill(child, signal.SIGKILL)
            status = ended(child)
            if status == 0:
                break
            assert status == -signal.SIGKILL, f"{out} ended with {status}"
            kills += 1
            moments.update(left_behind(out))
            assert is_whole(out, lines), f"{out} lacks lines of its checkpoint"
        finish(partial(made.go_on, out))
        assert_same(contents(out), whole, f"run {runs}")
        shutil.rmtree(out)
        runs += 1
    return {"kills": kills, "runs": runs, "seed": seed, "came": dict(sorted(moments.items()))}


def wait_for_lines(out: Path, count: int, child: int) -> None:
    """Until the run has that many lines, or is done."""
    deadline = time.monotonic() + 60
    while len(lines_of(out)) < min(count, STEPS):
        # WNOWAIT: its status is still there for ended()
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        assert time.monotonic() < deadline, f"{out} does not go on"
        time.sleep(0.001)


# -- every call that touches the folder ------------------------------------------------------------


def killed_at(point: int, out: Path, work: Callable[[], object]) -> bool:
    """Does the work in a process that kills itself before its point-th call on the folder."""

    def body() -> None:
        calls = 0

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal calls
            paths = (a for a in arguments[:2] if isinstance(a, str | bytes | os.PathLike))
            if any(os.fsdecode(path).startswith(str(out)) for path in paths):
                calls += 1
                if calls == point:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()

    status = ended(forked(body))
    assert status in (0, -signal.SIGKILL), f"{out} ended with {status}"
    return status != 0


class Case(NamedTuple):
    """Work on a folder that is killed; the ends that its resume may then come to."""

    origin: Path | None
    work: Callable[[Path], object]
    go_on: Callable[[Path], object]
    ends: list[Path]


def cases(folder: Path, backend: str) -> dict[str, Case]:
    """A start, a start over another run, and a run that gets a later last step."""
    small = {"autosave_seconds": 1e-9, "eval_interval": 2}
    made = scenario(backend, folder / "text.txt", steps=3, **small)
    other = scenario(backend, folder / "text.txt", steps=2, d_model=16, **small)

    def extend(out: Path) -> None:
        for _ in tabgpt.resume(out, threads=1, extend_to=5):
            pass

    whole, old, longer = (folder / name for name in ("whole", "old", "longer"))
    finish(partial(made.start, whole))
    finish(partial(other.start, old))
    shutil.copytree(whole, longer)
    finish(partial(extend, longer))
    return {
        "start": Case(None, made.start, made.go_on, [whole]),
        "overwrite": Case(old, partial(made.start, overwrite=True), made.go_on, [whole, old]),
        "extend": Case(whole, extend, extend, [longer]),
    }


def every_point(folder: Path, backend: str, every: int, seed: str) -> dict[str, Any]:
    """Each case killed at its calls; its first resume too, somewhere, and the next is let be."""
    out = folder / "run"
    points: dict[str, int] = {}
    for name, case in cases(folder, backend).items():
        point, killed = random.Random(seed).randrange(every) + 1 - every, True
        kills = -1
        while killed:
            point += every
            kills += 1
            what = f"{name}, killed at call {point}"
            shutil.rmtree(out, ignore_errors=True)
            if case.origin:
                shutil.copytree(case.origin, out)
            killed = killed_at(point, out, partial(case.work, out))
            for again in (True, False):
                assert any(is_whole(out, lines_of(end)) for end in case.ends), what
                if again:
                    killed_at(1 + point * 7 % 23, out, partial(case.go_on, out))
            finish(partial(case.go_on, out))
            found = contents(out)
            end = next((e for e in case.ends if contents(e).keys() == found.keys()), case.ends[0])
            assert_same(found, contents(end), what)
        points[name] = kills
    return {"kills at calls": points}


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill runs, and see whether they mind.")
    parser.add_argument("--count", type=int, help="kills at random moments")
    parser.add_argument("--points", action="store_true", help="kills at every call on the folder")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of --points: each Nth")
    parser.add_argument("--backend", choices=("native", "numpy"), default="native")
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="default: the date")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, work in (
            ("random", lambda out: random_kills(out, options.backend, options.count, options.seed)),
            (
                "points",
                lambda out: every_point(out, options.backend, options.every, options.seed),
            ),
        ):
            if options.count if name == "random" else options.points:
                (Path(folder) / name).mkdir()
                results.append({"backend": options.backend, "survived": True})
                results[-1] |= work(Path(folder) / name)
                print(json.dumps(results[-1]), flush=True)
    if options.record:
        import record

        why = "every run went on to the bits of the run that was never killed"
        command = f"python tests/kills.py {' '.join(sys.argv[1:])}"
        print(record.write(f"kills-{options.backend}", command, results, ok=True, why=why))


if __name__ == "__main__":
    main()
