"""The bench page in Chromium, other libraries' products beside it: python bench/kernels_tab.py

Drives the page /bench as a person would and takes its record; then, in the same
Chromium, our fastest kernel of each product in turns with @jax-js/jax and
@tensorflow/tfjs-backend-webgpu, each with its operands on the GPU. Every product
that was timed is held to the float32 bound of tests/bounds.py. Without a GPU the
browser brings a program that plays one: such results are marked, and their sizes
end at 512.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import command
import numpy as np
import pairs
import record
from peers import compare, need_modules
from playwright.sync_api import Browser
from tab_page import open_in

sys.path.insert(0, str(record.ROOT / "tests"))

from bench_page import GROUPS, BenchPage
from lab_browser import GPU_FLAGS, launch_chromium, serve_lab

OURS = "ours_gpu"
PEERS = {"jax_gpu": "jax-js", "tfjs_gpu": "tfjs"}
"""Worker's name: library's."""
SHADERS = record.ROOT / "shaders"
SWEEP_MS = 3_600_000.0
LARGEST = 4096
MOST_ON_SOFTWARE = 512


def sweep(browser: Browser, effort: command.Effort) -> dict[str, Any]:
    """The record that the page gives."""
    groups, most = ({"cube"}, 128) if effort.quick else (set(GROUPS), LARGEST)
    with serve_lab() as address, tempfile.TemporaryDirectory() as folder:
        page = BenchPage(browser.new_page(accept_downloads=True), address).open()
        page.choose(groups, most)
        page.start()
        if (phase := page.wait(SWEEP_MS)) != "done":
            said = page.shown("sweep-status").inner_text()
            raise RuntimeError(f"the sweep is {phase}: {said}")
        taken = page.download(Path(folder))
        page.page.close()
    return taken


def seconds(row: dict[str, Any]) -> float:
    return float(np.median(row["gpu_s"] or row["wall_s"]))


def fastest(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The float32 kernel of each product that was fastest and right."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        if not row["ok"] or not row["wall_s"] or not row["case"].startswith("matmul "):
            continue
        if "f16" in row["variant"]:
            continue
        known = best.get(row["case"])
        if known is None or seconds(row) < seconds(known):
            best[row["case"]] = row
    return {case: str(row["variant"]) for case, row in best.items()}


def against_peers(
    browser: Browser, taken: dict[str, Any], effort: command.Effort
) -> list[dict[str, Any]]:
    """Every product that the page measured, where a software adapter is not too slow for it."""
    need_modules()
    software = bool(taken["machine"]["software_adapter"])
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        texts = {path.stem: path.read_text() for path in SHADERS.glob("*.wgsl")}
        (shaders := Path(folder) / "shaders.json").write_text(json.dumps(texts))
        with open_in(browser, [OURS, *PEERS], {"shaders.json": shaders}) as page:
            about = {worker: page.ask(worker, do="start") for worker in (OURS, *PEERS)}
            print(*about.values(), sep="\n")
            print("product: kernel; of each peer, ratio ours / peer (quartiles)")
            for case, kernel in fastest(taken["results"]).items():
                _, form, *sizes = case.split()
                M, K, N = map(int, sizes)
                if software and (float(M) * N * K) ** (1 / 3) > MOST_ON_SOFTWARE:
                    continue
                rows = compare(page, OURS, PEERS, (M, K, N), form, effort, kernel=kernel)
                same = {"kind": "peer", "case": case, "variant": kernel, "software": software}
                results += [
                    {**same, **row, "about": about[worker]}
                    for row, worker in zip(rows, PEERS, strict=True)
                ]
                cells = [f"{row['peer']} {command.shown(row['ratio'])}" for row in rows]
                print(f"{case}: {kernel}", *cells, sep="  ", flush=True)
    return results


def measure(effort: command.Effort) -> command.Outcome:
    with launch_chromium(*GPU_FLAGS) as browser:
        taken = sweep(browser, effort)
        peers = against_peers(browser, taken, effort)
        version = f"Chromium {browser.version}"
    for peer in PEERS.values():
        ratios = [row["ratio"]["median"] for row in peers if row["peer"] == peer]
        print(f"geometric mean against {peer}: {pairs.geometric_mean(ratios):.3f}")
    worst = command.worst(share for row in peers for share in row["error"].values())
    page = taken["verdict"]
    why = f"{page['why']}; beside peers, the largest share of the float32 bound is {worst:.3f}"
    facts = ("adapter", "software_adapter", "limits", "features")
    machine = {name: taken["machine"][name] for name in facts}
    return command.Outcome(
        [*taken["results"], *peers],
        bool(page["ok"]) and worst <= 1,
        why,
        {"browser": version, **machine},
        taken["clock"],
    )


if __name__ == "__main__":
    command.run("kernels-tab", __doc__, command.Effort(rounds=5, sample_s=0.03), measure)
