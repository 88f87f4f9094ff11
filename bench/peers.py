"""One product by our worker and other libraries' in a tab, in turns; every result is checked."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import command
import numpy as np
import pairs
import record
from matmul_native import Shape
from tab_page import TabPage
from tab_session import TabSide

sys.path.insert(0, str(record.ROOT / "tests"))

import bounds

MODULES = Path(__file__).resolve().parent / "node_modules"
"""Where `make peers` puts the other libraries."""


def need_modules() -> None:
    if not MODULES.exists():
        raise FileNotFoundError(f"{MODULES} is missing: run `make peers`")


def product(shape: Shape, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Operands as they lie in memory: a [M,K] or transposed, b [K,N] or transposed."""
    M, K, N = shape
    rng = np.random.default_rng(M + 3 * K + 5 * N)
    a = rng.standard_normal((K, M) if form == "TN" else (M, K), dtype=np.float32)
    b = rng.standard_normal((N, K) if form == "NT" else (K, N), dtype=np.float32)
    return a, b


def error(out: np.ndarray, a: np.ndarray, b: np.ndarray, form: str) -> float:
    """Largest share of the float32 bound that a product has used up; above 1 is wrong."""
    x, y = (value.astype(np.float64) for value in (a, b))
    x, y = x.T if form == "TN" else x, y.T if form == "NT" else y
    expected = x @ y
    bound = bounds.matmul(x, y, {}, {"out": expected}, False, 1.0)["out"]
    return float((abs(out - expected) / bound).max())


def compare(
    page: TabPage,
    ours: str,
    peers: Mapping[str, str],
    shape: Shape,
    form: str,
    effort: command.Effort,
    **job: Any,
) -> list[dict[str, Any]]:
    """One product (shape M, K, N) in all workers: a row for each peer, all from the same rounds.

    peers: worker's name to library's. job: what else the workers are told of the product.
    """
    M, K, N = shape
    a, b = product(shape, form)
    sides: dict[str, TabSide] = {}
    for worker in (ours, *peers):
        page.ask(
            worker,
            do="prepare",
            sizes=[M, N, K],
            form=form,
            a=base64.b64encode(a.tobytes()).decode(),
            b=base64.b64encode(b.tobytes()).decode(),
            **job,
        )
        sides[worker] = TabSide(page, worker, do="calls")
    taken = pairs.take_rounds(list(sides.values()), rounds=effort.rounds, sample_s=effort.sample_s)
    errors = {}
    for worker in sides:
        out = np.frombuffer(base64.b64decode(page.ask(worker, do="out")), np.float32)
        errors[worker] = error(out.reshape(M, N), a, b, form)
        page.ask(worker, do="free")
    return [
        {
            "peer": library,
            "error": {"ours": errors[ours], "peer": errors[worker]},
            **pairs.samples(sides[ours], sides[worker]),
            **taken,
        }
        for worker, library in peers.items()
    ]
