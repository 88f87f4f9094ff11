"""Parts of bench/on_gpu.sh that no other command does: python bench/on_gpu.py PART --out FOLDER

parity     a training step with each kernel offered for training, against the native core
attention  what attention keeps in the GPU's memory at each length, and that it is right there
training   the run that the script made: its kernels' speed and losses as a record
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import record
from tabgpt import checkpoint
from tabgpt.backends.native import _core
from tabgpt.gpu.adapter import find_adapter
from tabgpt.gpu.check import RELATIVE, check_gpu
from tabgpt.sweep.definition import QUICK, Case, definition
from tabgpt.sweep.kernels import measure_case
from tabgpt.sweep.record import machine
from tabgpt.sweep.stage import Stage, Variant, variants

NO_LIMIT = float(1 << 40)
HEADS, HEAD_DIM = 6, 64
LENGTHS = (256, 512, 1024, 2048, 4096)
FIRST_SHARE = 0.1
"""Of a run's steps, left out of its speed: compilation is in them."""

Rows = list[dict[str, Any]]


def write(part: str, out: Path, results: Rows, ok: bool, why: str) -> None:
    """A record with the adapter in it; SystemExit where its verdict is not good."""
    about = machine(find_adapter())
    names = ("adapter", "software_adapter", "limits", "features")
    path = record.write(
        f"gpu-{part}",
        "bench/on_gpu.sh",
        results,
        ok=ok,
        why=why,
        folder=out,
        **{name: about[name] for name in names},
    )
    print(f"{path.name}: {why}")
    if not ok:
        raise SystemExit(1)


def parity(out: Path) -> None:
    """The core's own choice, and each other kernel in its place."""
    known = [variant for variant in variants() if variant.training]
    usable = [v for v in known if not v.feature or v.feature in find_adapter().features]
    choices = ["", *(f"{v.family}={v.name}" for v in usable if not v.default)]
    results: Rows = []
    for choice in choices:
        result = check_gpu(choice)
        share = result.worst if math.isfinite(result.worst) else None
        row = {"variants": choice or "default", "ok": result.ok, "share_of_bound": share}
        results.append({**row, "tensor": result.name, "bound": RELATIVE})
        print(f"  {row['variants']}: largest error {result.worst:.3f} of its bound, {result.name}")
    wrong = [row["variants"] for row in results if not row["ok"]]
    why = f"{len(results)} choices of kernels give the native core's step, every tensor"
    write("parity", out, results, not wrong, f"wrong: {', '.join(wrong)}" if wrong else why)


def planned_bytes(op: str, variant: Variant) -> int:
    """Of all buffers of an attention's plan."""
    choice = f"{variant.family}={variant.name}"
    plan = json.loads(_core.GpuOp(op).plan(choice, NO_LIMIT, NO_LIMIT))
    return sum(buffer["bytes"] for buffer in plan["buffers"])


def attention(out: Path, lengths: Sequence[int]) -> None:
    """Memory in proportion to the length, never to its square; and the result checked there."""
    kernels = [v for v in variants() if v.family == "attention" and v.training]
    stage = Stage(find_adapter(), replace(definition(), timing=QUICK))
    results: Rows = []
    try:
        for way in ("forward", "backward"):
            for length in lengths:
                op = f"attention {way} 1 {HEADS} {length} {HEAD_DIM}"
                rows = measure_case(stage, Case(op, "attention"), kernels)
                for variant, row in zip(kernels, rows, strict=True):
                    size = planned_bytes(op, variant)
                    scores = 4 * HEADS * length * length
                    note = row.skipped or f"{'right' if row.ok else 'WRONG'}"
                    print(f"  {op}, {variant.name}: {size / 2**20:.1f} MiB, a matrix of scores "
                          f"alone has {scores / 2**20:.1f}; {note}")  # fmt: skip
                    results.append({**row.to_dict(), "length": length, "planned_bytes": size})
    finally:
        stage.close()
    grow = [
        (a, b)
        for a, b in zip(results, results[len(kernels) :], strict=False)
        if a["variant"] == b["variant"] and b["length"] > a["length"]
        and b["planned_bytes"] > 1.1 * a["planned_bytes"] * b["length"] / a["length"]
    ]  # fmt: skip
    measured = [row for row in results if not row["skipped"]]
    wrong = [row["case"] for row in measured if not row["ok"]]
    ok = bool(measured) and not wrong and not grow
    why = f"{len(measured)} of {len(results)} ran and were right; memory is in proportion to length"
    if not ok:
        cases = [later["case"] for _, later in grow]
        why = f"wrong: {wrong}; memory grows faster than the length: {cases}"
    write("attention", out, results, ok, why)


def training(out: Path, run: Path) -> None:
    """From the run's own metrics.jsonl."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    about = checkpoint.describe(run)
    losses = [line["loss"] for line in lines]
    settled = lines[int(FIRST_SHARE * len(lines)) :]
    speed = statistics.median(line["tokens_per_s"] for line in settled)
    ok = all(map(math.isfinite, losses)) and losses[-1] < losses[0]
    row = {"steps": len(lines), "losses": losses, "tokens_per_s": speed}
    row |= {"val_losses": [line["val_loss"] for line in lines if line.get("val_loss") is not None]}
    row |= {"model": about.config.to_dict()}
    why = f"{len(lines)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}, {speed:,.0f} tokens/s"
    write("training", out, [row], ok, why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("parity", "attention", "training"))
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--run", type=Path, help="of training: the run's folder", metavar="FOLDER")
    parser.add_argument("--small", action="store_true", help="only the shortest attention")
    given = parser.parse_args()
    began = time.monotonic()
    if given.part == "parity":
        parity(given.out)
    elif given.part == "attention":
        attention(given.out, LENGTHS[:1] if given.small else LENGTHS)
    else:
        training(given.out, given.run or given.out / "run")
    print(f"  {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
