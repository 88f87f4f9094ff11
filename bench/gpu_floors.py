"""Predicted time of each dispatch of nanogpt-baby's step on three GPUs; no GPU takes part.

    python bench/gpu_floors.py [--record]

From public figures alone, the peak in float32 and the memory's bandwidth: a dispatch takes
the larger of the times that its operations and its bytes (gpu_counts.py) need at those.
That is what no kernel can go below, so a measured step divided by it says what is left to
gain. The record is there to be compared with what bench/on_gpu.sh measures on such a GPU.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import gpu_counts
import record
from attention_counts import GPUS, LANES, Gpu

PRESET = "nanogpt-baby"
LAYER = re.compile(r"\bh\.\d+\b")
Row = dict[str, Any]


def peak_tflops(gpu: Gpu) -> float:
    """A multiply and an add a lane and cycle."""
    return gpu.units * LANES * 2 * gpu.ghz / 1e3


def floors(gpu: Gpu) -> list[gpu_counts.Count]:
    """Dispatches of all layers under one name; the whole step last."""
    given = argparse.Namespace(tflops=peak_tflops(gpu), gb_s=gpu.gb_s, dispatches=True, variants="")
    counts, _ = gpu_counts.counts(PRESET, given)
    found: dict[str, gpu_counts.Count] = {}
    for count in counts:
        label = LAYER.sub("h.*", count.label)
        total = found.setdefault(label, gpu_counts.Count(label))
        total.dispatches += count.dispatches
        total.operations += count.operations
        total.bytes += count.bytes
        total.floor_ms += count.floor_ms
    return list(found.values())


def rows() -> list[Row]:
    """A dispatch's name, how many a step has, its work, and milliseconds of one on each GPU."""
    columns = {gpu.name: floors(gpu) for gpu in GPUS}
    made = []
    for together in zip(*columns.values(), strict=True):
        first, times = together[0], max(together[0].dispatches, 1)
        whole = first.label == "**step**"
        each = 1 if whole else times
        made.append(
            {
                "dispatch": "step" if whole else first.label,
                "a_step": first.dispatches,
                "operations": first.operations / each,
                "bytes": first.bytes / each,
                "ms": {
                    name: count.floor_ms / each
                    for name, count in zip(columns, together, strict=True)
                },
            }
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict a step's dispatches on three GPUs.")
    parser.add_argument("--record", action="store_true", help="write the record too")
    given = parser.parse_args()
    made = rows()
    print(f"| dispatch | a step | GFLOP | MB | {' | '.join(gpu.name for gpu in GPUS)} |")
    print("| --- | ---: | ---: | ---: | " + " | ".join("---:" for _ in GPUS) + " |")
    for row in made:
        times = " | ".join(f"{ms:.4f} ms" for ms in row["ms"].values())
        print(f"| {row['dispatch']} | {row['a_step']} | {row['operations'] / 1e9:,.3f} "
              f"| {row['bytes'] / 1e6:,.2f} | {times} |")  # fmt: skip
    if given.record:
        gpus = [{"name": g.name, "tflops": peak_tflops(g), "gb_s": g.gb_s} for g in GPUS]
        record.write(
            "gpu-floors",
            "python bench/gpu_floors.py --record",
            [{"preset": PRESET, "gpus": gpus}, *made],
            ok=all(min(row["ms"].values()) > 0 for row in made),
            why="counted from the core's plan and three GPUs' public figures; nothing was timed",
        )


if __name__ == "__main__":
    main()
