"""One training step on every stage of the core: python bench/evolution.py

The stages of stages.json, from the oracle over the native and the WebAssembly builds
to WebGPU and PyTorch, at four presets: all in one run, in turns, on the default text.
Each stage starts from the same weights and trains on the same batches; before anything
is timed, its first losses are compared with the oracle's in float32. The controls of
stages.json take turns with them, and tell where a gain goes that is smaller than its cause.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import command
import gains
import numpy as np
import pairs
from memory64 import UNCHECKED
from stage import CONTROLS, STAGES, TABLE, Setting, Started, gpu_name
from tab_page import NODE, TabPage
from tab_session import open_tab
from tabgpt.corpus import corpus_of

CHECKED_STEPS: int = TABLE["checked_steps"]
LOSS_BOUND: float = TABLE["loss_bound"]
"""Relative, of first losses against the oracle's; float32 programs differ by a few 1e-7."""
ORACLE = "oracle"
CROSSING = Path(__file__).resolve().parent / "crossing.mjs"


def handover_ns() -> float:
    """Nanoseconds in which one core hands a number to another."""
    done = subprocess.run([NODE, CROSSING], capture_output=True, text=True, check=True)
    return float(done.stdout)


def is_measured(stage: dict[str, Any], preset: str) -> bool:
    """False where the GPU is a program of the CPU's and a step would take it minutes."""
    if stage["host"] != "gpu" or preset in stage["software_presets"]:
        return True
    return "software" not in gpu_name()


def measure_preset(
    name: str, effort: command.Effort, page: TabPage, unchecked: TabPage
) -> list[dict[str, Any]]:
    """A row a stage and control."""
    tokenizer, tokens = corpus_of(None).tokenize("char")
    with ExitStack() as closing:
        setting = Setting(
            effort.recipe(name),
            tokenizer.vocab_size,
            tokens,
            CHECKED_STEPS,
            page,
            unchecked,
            closing,
        )
        stages = [stage for stage in (*STAGES, *CONTROLS) if is_measured(stage, name)]
        started = {stage["name"]: setting.start(stage) for stage in stages}
        before = handover_ns()
        taken = pairs.take_rounds(
            [each.side for each in started.values()], rounds=effort.rounds, sample_s=effort.sample_s
        )
        after = handover_ns()
    baseline = started[TABLE["baseline"]].side.seconds

    def row(stage: dict[str, Any], each: Started) -> dict[str, Any]:
        return {
            "preset": name,
            "stage": stage["name"],
            "threads": stage.get("threads"),
            **each.about,
            "losses": each.losses,
            "losses_relative": command.relative(each.losses, started[ORACLE].losses),
            "seconds": each.side.seconds,
            "calls": each.side.calls,
            "ratio": pairs.ratio(each.side.seconds, baseline),
            "handover_ns": [before, after],
            **taken,
        }

    rows = [row(stage, started[stage["name"]]) for stage in stages]
    gains.add(rows, TABLE["gains"], max(before, after))
    return rows


def measure(effort: command.Effort) -> command.Outcome:
    results: list[dict[str, Any]] = []
    presets = TABLE["presets"][:1] if effort.quick else TABLE["presets"]
    with open_tab() as page, open_tab(UNCHECKED) as unchecked:
        print(f"preset, stage: speed against {TABLE['baseline']} (quartiles), ms a step, losses")
        for preset in presets:
            for row in measure_preset(preset, effort, page, unchecked):
                results.append(row)
                ms = 1e3 * float(np.median(row["seconds"]))
                print(
                    f"{preset:7s} {row['stage']:32s} {command.shown(row['ratio'])}"
                    f"  {ms:.1f}  {row['losses_relative']:.1e}",
                    flush=True,
                )
                for gain in row.get("gains", []):
                    if gain["why"] != "":
                        print(f"  {gain['why'] or f'unexplained: {gain}'}", flush=True)
        browser = page.browser
    worst = command.worst(row["losses_relative"] for row in results)
    adapter = next(row["adapter"] for row in results if "adapter" in row)
    why = (
        f"the first {CHECKED_STEPS} losses of every stage differ from the oracle's by at most"
        f" {worst:.1e} (bound {LOSS_BOUND:g}), relative"
    )
    machine = {"browser": browser, "adapter": adapter, "software_adapter": "software" in adapter}
    return command.Outcome(results, worst <= LOSS_BOUND, why, machine)


if __name__ == "__main__":
    command.run("evolution", __doc__, command.Effort(rounds=5, sample_s=0.05), measure)
