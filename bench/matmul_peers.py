"""Our SGEMM in a Chromium tab against other libraries' there: python bench/matmul_peers.py

512 cubed and the products of a training step, two threads, against jax-js,
onnxruntime-web and tfjs, each on its WebAssembly backend with its own threads, in
a worker of its own. Each holds its operands and is warmed up; onnxruntime copies
a graph's inputs at each run, for which it has no other way. Every product that
was timed is held to the float32 bound of tests/bounds.py.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import command
import numpy as np
import pairs
import record
from matmul_native import CUBE, FORMS, TRAINING, Shape
from tab_page import TabPage, open_page
from tab_session import TabSide

sys.path.insert(0, str(record.ROOT / "tests"))

import bounds

OURS = "ours"
PEERS = {"jax": "jax-js", "ort": "onnxruntime-web", "tfjs": "tfjs"}
"""Worker's name: library's."""
THREADS = 2
MODULES = Path(__file__).resolve().parent / "node_modules"
ORT = "ort-wasm-simd-threaded"
TFJS = "tfjs-backend-wasm"
FILES = {
    **{f"ort/{ORT}.{kind}": f"onnxruntime-web/dist/{ORT}.{kind}" for kind in ("mjs", "wasm")},
    **{
        f"tfjs/{TFJS}{kind}.wasm": f"@tensorflow/tfjs-backend-wasm/wasm-out/{TFJS}{kind}.wasm"
        for kind in ("", "-simd", "-threaded-simd")
    },
}
"""On the site: in MODULES."""


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


def compare(page: TabPage, shape: Shape, form: str, effort: command.Effort) -> list[dict[str, Any]]:
    """One product in all libraries: a row for each peer, all from the same rounds."""
    M, K, N = shape
    a, b = product(shape, form)
    sides: dict[str, TabSide] = {}
    for worker in (OURS, *PEERS):
        page.ask(
            worker,
            do="prepare",
            sizes=[M, N, K],
            form=form,
            a=base64.b64encode(a.tobytes()).decode(),
            b=base64.b64encode(b.tobytes()).decode(),
        )
        sides[worker] = TabSide(page, worker, do="calls")
    taken = pairs.take_rounds(list(sides.values()), rounds=effort.rounds, sample_s=effort.sample_s)
    errors = {}
    for worker in sides:
        text = page.ask(worker, do="out")
        out = np.frombuffer(base64.b64decode(text), np.float32).reshape(M, N)
        errors[worker] = error(out, a, b, form)
        page.ask(worker, do="free")
    return [
        {
            "peer": PEERS[worker],
            "shape": list(shape),
            "form": form,
            "error": {"ours": errors[OURS], "peer": errors[worker]},
            **pairs.samples(sides[OURS], sides[worker]),
            **taken,
        }
        for worker in PEERS
    ]


def show(rows: Sequence[dict[str, Any]]) -> None:
    operations = 2e-9 * float(np.prod(rows[0]["shape"], dtype=float))
    ours = operations / float(np.median(rows[0]["ours_s"]))
    name = f"{' x '.join(map(str, rows[0]['shape'])):18s} {rows[0]['form']}: {ours:6.1f}"
    cells = [
        f"{row['peer']} {operations / float(np.median(row['peer_s'])):.1f},"
        f" {command.shown(row['ratio'])}"
        for row in rows
    ]
    print(name, *cells, sep="  ", flush=True)


def measure(effort: command.Effort) -> command.Outcome:
    shapes = [(16, 33, 12)] if effort.quick else [CUBE, *TRAINING]
    if not MODULES.exists():
        raise FileNotFoundError(f"{MODULES} is missing: run `make peers`")
    files = {name: MODULES / source for name, source in FILES.items()}
    results: list[dict[str, Any]] = []
    with open_page([OURS, *PEERS], files) as page:
        about = {worker: page.ask(worker, do="start", threads=THREADS) for worker in (OURS, *PEERS)}
        print(*about.values(), sep="\n")
        print("M x K x N, form: GFLOP/s of ours; of each peer, ratio ours / peer (quartiles)")
        for shape in shapes:
            for form in FORMS:
                rows = compare(page, shape, form, effort)
                results += [{**row, "about": about[w]} for row, w in zip(rows, PEERS, strict=True)]
                show(rows)
        browser = page.browser
    for peer in PEERS.values():
        mean = pairs.geometric_mean(r["ratio"]["median"] for r in results if r["peer"] == peer)
        print(f"geometric mean against {peer}: {mean:.3f}")
    worst = command.worst(share for row in results for share in row["error"].values())
    why = f"largest share of the float32 bound that a product used up: {worst:.3f}"
    return command.Outcome(results, worst <= 1, why, {"browser": browser})


if __name__ == "__main__":
    command.run("matmul-peers", __doc__, command.Effort(rounds=7, sample_s=0.03), measure)
