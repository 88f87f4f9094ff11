"""Our SGEMM in a Chromium tab against other libraries' there: python bench/matmul_peers.py

512 cubed and the products of a training step, two threads, against jax-js,
onnxruntime-web and tfjs, each on its WebAssembly backend with its own threads, in
a worker of its own. Each holds its operands and is warmed up; onnxruntime copies
a graph's inputs at each run, for which it has no other way. Every product that
was timed is held to the float32 bound of tests/bounds.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import command
import numpy as np
import pairs
from matmul_native import CUBE, FORMS, TRAINING
from peers import MODULES, compare, need_modules
from tab_page import open_page

OURS = "ours"
PEERS = {"jax": "jax-js", "ort": "onnxruntime-web", "tfjs": "tfjs"}
"""Worker's name: library's."""
THREADS = 2
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
    need_modules()
    files = {name: MODULES / source for name, source in FILES.items()}
    results: list[dict[str, Any]] = []
    with open_page([OURS, *PEERS], files) as page:
        about = {worker: page.ask(worker, do="start", threads=THREADS) for worker in (OURS, *PEERS)}
        print(*about.values(), sep="\n")
        print("M x K x N, form: GFLOP/s of ours; of each peer, ratio ours / peer (quartiles)")
        for shape in shapes:
            for form in FORMS:
                rows = [
                    {"shape": list(shape), "form": form, **row, "about": about[worker]}
                    for row, worker in zip(
                        compare(page, OURS, PEERS, shape, form, effort), PEERS, strict=True
                    )
                ]
                results += rows
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
