"""Our native SGEMM against OpenBLAS through numpy: python bench/matmul_native.py

512 cubed and the products of a training step, each as NN, NT and TN, on one and
two threads. Both sides read the same two matrices; afterwards both results are
held to the float32 bound of tests/bounds.py.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import command
import numpy as np
import pairs
import record
from tabgpt import _core

sys.path.insert(0, str(record.ROOT / "tests"))

import bounds

Shape = tuple[int, int, int]

CUBE = (512, 512, 512)
TRAINING = (
    (768, 128, 384),
    (768, 128, 512),
    (768, 512, 128),
    (1536, 96, 384),
    (1536, 256, 1024),
)
"""M, K, N of a training step's products."""
FORMS = ("NN", "NT", "TN")
THREADS = (1, 2)
NO_DROPOUT = (0, 0, 0, 0, 1)

UNSET = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "TABGPT_ISA",
)
"""Variables that would hold one side below its best; all are taken away before measuring."""


class OpenBlas:
    """numpy's own copy of OpenBLAS, by the functions that threadpoolctl calls too."""

    def __init__(self) -> None:
        folder = Path(np.__file__).parents[1] / "numpy.libs"
        found = sorted(folder.glob("lib*openblas*"))
        if not found:
            raise RuntimeError(f"{folder} holds no OpenBLAS: install numpy from its PyPI wheel")
        self._library = ctypes.CDLL(str(found[0]))
        self.kernels = self._text("get_corename")
        self.version = self._text("get_config")

    def _function(self, name: str) -> Any:
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("64_", ""):
                if hasattr(self._library, f"{prefix}_{name}{suffix}"):
                    return getattr(self._library, f"{prefix}_{name}{suffix}")
        raise RuntimeError(f"this OpenBLAS exports no openblas_{name}; use numpy's PyPI wheel")

    def _text(self, name: str) -> str:
        function = self._function(name)
        function.restype = ctypes.c_char_p
        return str(function().decode())

    def use_threads(self, threads: int) -> None:
        """Of all products from here on; RuntimeError where OpenBLAS starts fewer."""
        self._function("set_num_threads")(threads)
        if (got := self._function("get_num_threads")()) != threads:
            raise RuntimeError(f"OpenBLAS runs on {got} threads where {threads} were asked for")


def measure(
    shape: tuple[int, int, int],
    form: str,
    threads: int,
    blas: OpenBlas,
    count: int,
    sample_s: float,
) -> dict[str, Any]:
    """One comparison; `error` is each side's largest share of the bound, above 1 is wrong."""
    M, K, N = shape
    rng = np.random.default_rng(M + 3 * K + 5 * N)
    a = rng.standard_normal((K, M) if form == "TN" else (M, K), dtype=np.float32)
    b = rng.standard_normal((N, K) if form == "NT" else (K, N), dtype=np.float32)
    left, right = a.T if form == "TN" else a, b.T if form == "NT" else b
    ours, theirs = (np.full((M, N), np.nan, np.float32) for _ in range(2))
    params = [FORMS.index(form), M, N, K, 0, 0, *NO_DROPOUT]
    tensors = [a, b, ours, None, None, None]
    blas.use_threads(threads)
    timing = pairs.compare(
        lambda: _core.op("matmul", params, tensors, threads),
        lambda: np.matmul(left, right, out=theirs),
        pairs=count,
        sample_s=sample_s,
    )
    x, y = left.astype(np.float64), right.astype(np.float64)
    expected = x @ y
    bound = bounds.matmul(x, y, {}, {"out": expected}, False, 1.0)["out"]
    shares = {
        name: float((abs(out - expected) / bound).max())
        for name, out in (("ours", ours), ("openblas", theirs))
    }
    row = {"shape": list(shape), "form": form, "threads": threads, "error": shares}
    return {**row, "openblas": blas.kernels, **timing}


def verdict(results: list[dict[str, Any]]) -> tuple[bool, str]:
    """Whether every product of both sides is right, and how near the worst is to its bound."""
    worst = {
        side: float(np.max([row["error"][side] for row in results]))  # NaN stays NaN
        for side in ("ours", "openblas")
    }
    return all(share <= 1 for share in worst.values()), (
        f"largest share of the float32 bound: ours {worst['ours']:.3f}, "
        f"OpenBLAS {worst['openblas']:.3f}"
    )


def mean_ratio(results: Sequence[dict[str, Any]], threads: int, **where: Any) -> float:
    """Geometric mean of the median ratios on that many threads, of rows with these values."""
    return pairs.geometric_mean(
        row["ratio"]["median"]
        for row in results
        if row["threads"] == threads and all(row[key] == value for key, value in where.items())
    )


def gflops(row: dict[str, Any], side: str) -> float:
    """From the median sample."""
    return 2e-9 * float(np.prod(row["shape"], dtype=float)) / float(np.median(row[f"{side}_s"]))


def run(shapes: Sequence[Shape], count: int, sample_s: float) -> list[dict[str, Any]]:
    """All comparisons, one printed line each."""
    blas = OpenBlas()
    print(
        f"OpenBLAS {blas.version}\nM x K x N, form, threads: ours / OpenBLAS (quartiles), GFLOP/s"
    )
    results = []
    for threads in THREADS:
        for shape in shapes:
            for form in FORMS:
                row = measure(shape, form, threads, blas, count, sample_s)
                results.append(row)
                q = row["ratio"]
                print(
                    f"{' x '.join(map(str, shape)):18s} {form} {threads}:"
                    f" {q['median']:.3f} ({q['q1']:.3f} to {q['q3']:.3f})"
                    f"  {gflops(row, 'ours'):6.1f} {gflops(row, 'peer'):6.1f}",
                    flush=True,
                )
    for threads in THREADS:
        print(f"geometric mean, threads {threads}: {mean_ratio(results, threads):.3f}")
    return results


def without_settings() -> None:
    """Starts this script again without the variables of UNSET, where one is set."""
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    if len(environment) != len(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def measure_all(effort: command.Effort) -> command.Outcome:
    shapes = [(16, 33, 12)] if effort.quick else [CUBE, *TRAINING]
    results = run(shapes, effort.rounds, effort.sample_s)
    return command.Outcome(results, *verdict(results))


if __name__ == "__main__":
    without_settings()
    command.run("matmul-native", __doc__, command.Effort(rounds=21, sample_s=0.02), measure_all)
