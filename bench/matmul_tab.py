"""Our SGEMM in a Chromium tab against its own ceiling: python bench/matmul_tab.py

On one thread, 512 cubed and the products of a training step against the fastest
loop of multiply-adds in registers (bench/tab/registers.cpp) in the same worker;
on two threads, against one thread. Every product that was timed is held to the
float32 bound of tests/bounds.py.
"""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import command
import numpy as np
import pairs
import record
from matmul_native import CUBE, FORMS, TRAINING, Shape
from tab_page import WORKERS, TabPage, open_page

sys.path.insert(0, str(record.ROOT / "tests"))

import bounds

KERNELS = ("relaxed", "simd")
LOOPS = ((4, 8), (6, 8), (4, 16))
"""Rows and columns of the register tiles."""
BIG = (1024, 1024, 1024)
LOOP_BOUND = 1e-6
"""Relative, of a register loop's sum, which is exact in float32."""

EMSCRIPTEN = record.ROOT / ".tools/emscripten/bin/em++"
WORKER = "products"


def build_loops(folder: Path) -> dict[str, Path]:
    """Compiles the register loops with each kind of kernels: name on the site, file."""
    if not EMSCRIPTEN.exists():
        raise FileNotFoundError(f"{EMSCRIPTEN} is missing: run `make wasm`")
    exports = ",".join(f"_sum_{rows}x{columns}" for rows, columns in LOOPS)
    files = {f"{kernels}.wasm": folder / f"{kernels}.wasm" for kernels in KERNELS}
    for kernels, file in zip(KERNELS, files.values(), strict=True):
        flags = ["-msimd128", *(["-mrelaxed-simd"] if kernels == "relaxed" else [])]
        flags += ["-std=c++20", "-O3", "--no-entry", "-sSTANDALONE_WASM"]
        flags += [f"-sEXPORTED_FUNCTIONS={exports}", "-o", str(file)]
        subprocess.run([EMSCRIPTEN, *flags, str(WORKERS / "registers.cpp")], check=True)
    return files


class Tab:
    """A page with the bench's worker."""

    def __init__(self, page: TabPage, count: int, sample_s: float) -> None:
        self._page = page
        self.version = page.browser
        self.count = count
        self.sample_s = sample_s

    def measure(
        self, build: str, shape: Shape, form: str, threads: int, peer: dict[str, Any]
    ) -> dict[str, Any]:
        """One comparison; `error` is the largest share of the float32 bound, above 1 is wrong."""
        M, K, N = shape
        rng = np.random.default_rng(M + 3 * K + 5 * N)
        a = rng.standard_normal((K, M) if form == "TN" else (M, K), dtype=np.float32)
        b = rng.standard_normal((N, K) if form == "NT" else (K, N), dtype=np.float32)
        job = {
            "build": build,
            "threads": threads,
            "sizes": [M, N, K],
            "form": FORMS.index(form),
            "peer": peer,
            "pairs": self.count,
            "sampleMs": 1e3 * self.sample_s,
            "warmUpMs": 1e3 * pairs.WARM_UP_S,
            "a": base64.b64encode(a.tobytes()).decode(),
            "b": base64.b64encode(b.tobytes()).decode(),
        }
        got = self._page.ask(WORKER, **job)
        x, y = (value.astype(np.float64) for value in (a, b))
        x, y = x.T if form == "TN" else x, y.T if form == "NT" else y
        expected = x @ y
        bound = bounds.matmul(x, y, {}, {"out": expected}, False, 1.0)["out"]
        outs = [
            np.frombuffer(base64.b64decode(text), np.float32).reshape(M, N)
            for text in got["outs"].values()
        ]
        timing = got["timing"]
        return {
            "build": build,
            "isa": got["isa"],
            "shape": list(shape),
            "form": form,
            "threads": threads,
            "error": float(np.max([(abs(out - expected) / bound).max() for out in outs])),
            "loop_error": float(got["loop_error"]),
            **timing,
            "ratio": pairs.ratio(timing["ours_s"], timing["peer_s"]),
        }

    def against_loop(
        self, kernels: str, shape: Shape, form: str, loop: tuple[int, int]
    ) -> dict[str, Any]:
        """One thread against a loop of the same number of operations in registers."""
        rows, columns = loop
        peer = {"wasm": f"{kernels}.wasm", "rows": rows, "columns": columns}
        row = self.measure(kernels, shape, form, 1, peer)
        return {"against": "registers", "loop": f"{rows}x{columns}", **row}

    def against_one_thread(self, kernels: str, shape: Shape, form: str) -> dict[str, Any]:
        """Two threads against one of the same build."""
        row = self.measure(f"{kernels}-threads", shape, form, 2, {"threads": 1})
        return {"against": "one thread", **row}


@contextlib.contextmanager
def open_tab(count: int, sample_s: float) -> Iterator[Tab]:
    """Builds and serves the bench's site, and opens it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_page([WORKER], build_loops(Path(folder))) as page,
    ):
        yield Tab(page, count, sample_s)


def best_loop(results: Sequence[dict[str, Any]], build: str) -> tuple[int, int]:
    """The loop with the fastest sample: a ceiling is what was reached, not what noise left."""
    rows = [row for row in results if row["build"] == build and row["against"] == "registers"]
    name = min(rows, key=lambda row: min(row["peer_s"]))["loop"]
    rows_columns = tuple(map(int, name.split("x")))
    return rows_columns[0], rows_columns[1]


def show(row: dict[str, Any]) -> None:
    operations = 2e-9 * float(np.prod(row["shape"], dtype=float))
    ours, peer = (operations / float(np.median(row[f"{side}_s"])) for side in ("ours", "peer"))
    q = row["ratio"]
    print(
        f"{row['build']:15s} {' x '.join(map(str, row['shape'])):18s} {row['form']}"
        f" {row['threads']} / {row.get('loop', '1 thread'):8s}:"
        f" {q['median']:.3f} ({q['q1']:.3f} to {q['q3']:.3f})  {ours:6.1f} {peer:6.1f}",
        flush=True,
    )


def run(tab: Tab, cube: Shape, shapes: Sequence[Shape], big: Shape) -> list[dict[str, Any]]:
    """All comparisons, one printed line each."""
    print("build, M x K x N, form, threads / peer: speed ratio (quartiles), GFLOP/s of each")
    results: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        results.append(row)
        show(row)

    for kernels in KERNELS:
        for loop in LOOPS:
            keep(tab.against_loop(kernels, cube, "NN", loop))
        loop = best_loop(results, kernels)
        for shape in (cube, *shapes):
            for form in FORMS:
                if (shape, form) != (cube, "NN"):
                    keep(tab.against_loop(kernels, shape, form, loop))
        for shape in (big, cube, *shapes):
            for form in FORMS:
                keep(tab.against_one_thread(kernels, shape, form))
    return results


def verdict(results: Sequence[dict[str, Any]]) -> tuple[bool, str]:
    """Whether every product is right and every register loop did all its turns."""
    worst, loop = (
        float(np.max([row[key] for row in results]))  # NaN stays NaN
        for key in ("error", "loop_error")
    )
    return worst <= 1 and loop <= LOOP_BOUND, (
        f"largest share of the float32 bound: {worst:.3f}; "
        f"the register loops' sums are {loop:.1e} off"
    )


def measure_all(effort: command.Effort) -> command.Outcome:
    small = [(16, 33, 12)]
    cube, *shapes, big = small * 2 if effort.quick else [CUBE, *TRAINING, BIG]
    with open_tab(effort.rounds, effort.sample_s) as tab:
        results = run(tab, cube, shapes, big)
    return command.Outcome(results, *verdict(results), {"browser": tab.version})


if __name__ == "__main__":
    command.run("matmul-tab", __doc__, command.Effort(rounds=21, sample_s=0.02), measure_all)
