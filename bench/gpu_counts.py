"""What a training step asks of a GPU, counted from the core's plans; no GPU takes part.

    python bench/gpu_counts.py --preset nanogpt-baby --tflops 10 --gb-s 300

For every preset, or the ones named: operations, bytes that must move if each bound range
moves once, operations a byte, and the floor in milliseconds on a GPU of that peak and
bandwidth, the larger of the two times of each dispatch added up. `--dispatches` lists each
dispatch instead of each kernel. Dispatches that finish a sum which another began are stated
apart. `--record` writes every preset's sum and kernels to bench/records/gpu-counts.json, which
README's table is made of, beside what the record of the commit `--before` says. Operations are
additions and multiplications; an exponential or a root counts as 8, about what its polynomial
takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import attention_counts
import record
from tabgpt import _core, shaders
from tabgpt.backends.native import core_config
from tabgpt.config import preset, preset_names

VOCABULARY = 65
NO_LIMIT = float(1 << 40)
Sizes = dict[str, float]


def _causal_pairs(p: Sizes) -> float:
    """(query, key) pairs of causal attention, over batch and heads."""
    return p["batch"] * p["heads"] * p["length"] * (p["length"] + 1) / 2


def _rows(per_element: int) -> Callable[[Sizes], float]:
    return lambda p: per_element * p["rows"] * p["width"]


def _elements(each: int) -> Callable[[Sizes], float]:
    return lambda p: each * p["n"]


def _product(p: Sizes) -> float:
    return 2 * p["M"] * p["N"] * p["K"]


def _product_sum(p: Sizes) -> float:
    """Of K parts, added up."""
    return p["M"] * p["N"] * p["K"]


def _attention(products: int) -> Callable[[Sizes], float]:
    return lambda p: _causal_pairs(p) * (2 * products * p["head_dim"] + 12)


def _flash(kernel: str) -> Callable[[Sizes], float]:
    """Whole tiles, and the softmax of all that is in them."""
    shape = attention_counts.KERNELS[kernel]

    def operations(p: Sizes) -> float:
        sizes = attention_counts.Sizes(
            *(int(p[name]) for name in ("batch", "heads", "length", "head_dim"))
        )
        softmax = 12 * sizes.tile_pairs * attention_counts.TILE**2
        return attention_counts.by_tile(shape, sizes).operations + softmax

    return operations


OPERATIONS: dict[str, Callable[[Sizes], float]] = {
    "matmul_naive": _product,
    "matmul_tiled": _product,
    "matmul_blocked4": _product,
    "matmul_vec4": _product,
    "matmul_subgroup": _product,
    "matmul_f16": _product,
    "matmul_split": _product_sum,
    "attention_forward": _attention(2),
    "attention_dq": _attention(3),
    "attention_dkv": _attention(4),
    "flash_forward": _flash("forward"),
    "flash_dq": _flash("dq"),
    "flash_dkv": _flash("dkv"),
    "attention_d": lambda p: 2 * p["batch"] * p["length"] * p["heads"] * p["head_dim"],
    "layernorm_forward": _rows(8),
    "layernorm_backward": _rows(12),
    "layernorm_params": _rows(5),
    "column_sums": _rows(1),
    "cross_entropy": _rows(12),
    "embedding_forward": _rows(2),
    "embedding_wpe": lambda p: p["batch"] * p["length"] * p["width"],
    "embedding_wte": lambda p: p["vocab"] * p["width"],
    "add_partials": lambda p: p["n"] * p["chunks"],
    "square_sums": _elements(2),
    "sum_losses": _elements(1),
    "norm": _elements(1),
    "adamw": _elements(24),
}
"""Of one dispatch, from its problem sizes, without what a product's epilogue takes."""

ADDING = ("adamw", "add_partials", "embedding_wte", "embedding_wpe")
"""They read what they write."""

SECOND_PASSES = ("add_partials", "matmul_split", "sum_losses", "norm")
"""They finish a sum that the pass before them began."""


@dataclass
class Count:
    label: str
    dispatches: int = 0
    second_passes: int = 0
    """So many of the dispatches finish a sum."""
    operations: float = 0
    bytes: float = 0
    floor_ms: float = 0

    def add(self, kernel: str, operations: float, moved: float, gpu: argparse.Namespace) -> None:
        """One command; `kernel` is "" where it is no dispatch."""
        self.dispatches += bool(kernel)
        self.second_passes += kernel in SECOND_PASSES
        self.operations += operations
        self.bytes += moved
        self.floor_ms += 1e3 * max(operations / (gpu.tflops * 1e12), moved / (gpu.gb_s * 1e9))

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.operations / self.bytes if self.bytes else 0

    def row(self) -> str:
        return (
            f"| {self.label} | {self.dispatches} | {self.second_passes} "
            f"| {self.operations / 1e9:,.3f} | {self.bytes / 1e6:,.2f} "
            f"| {self.intensity:.2f} | {self.floor_ms:.4f} |"
        )


def commands_of_step(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every command of one optimizer step, in order."""
    for program in ("begin_step", *("forward", "backward") * plan["micro_batches"], "update"):
        yield from plan["programs"][program]


def sizes(command: dict[str, Any], plan: dict[str, Any]) -> Sizes:
    """A dispatch's whole-numbered problem sizes by name."""
    kernel = shaders.kernel(plan["pipelines"][command["pipeline"]]["kernel"])
    start = (command["bindings"][0][1] - plan["words"]["offset"]) // 4
    words = plan["words"]["data"][start:]
    named = zip(kernel.params, words, strict=False)
    return {name: word for (name, kind), word in named if kind == "u32"}


def moved(command: dict[str, Any], plan: dict[str, Any]) -> float:
    """Bytes of the ranges it binds; one that it adds to is read and written."""
    if "pipeline" not in command:
        return 2.0 * command["copy"][-1] if "copy" in command else command["clear"][-1]
    pipeline = plan["pipelines"][command["pipeline"]]
    adds = pipeline["constants"].get("ACCUMULATE") or pipeline["kernel"] in ADDING
    names = [name for name, _ in shaders.kernel(pipeline["kernel"]).bindings]
    bound = zip(names, pipeline["bindings"], command["bindings"], strict=True)
    buffers = plan["buffers"]
    return sum(
        size * (2 if mode == "read_write" and adds and name != "masked" else 1)
        for name, mode, (buffer, _, size) in bound
        if mode != "uniform" and not (buffers[buffer]["role"] == "workspace" and size == 256)
    )


def counts(name: str, gpu: argparse.Namespace) -> tuple[list[Count], dict[str, int]]:
    """A step's counts, by kernel or by dispatch, their sum last; and the plan's memory."""
    recipe = preset(name)
    config = core_config(recipe.model(VOCABULARY), recipe.train)
    core = _core.Gpu(config, "train", NO_LIMIT, NO_LIMIT, gpu.variants)
    plan = json.loads(core.plan())
    found: dict[str, Count] = {}
    total = Count("**step**")
    for command in commands_of_step(plan):
        if "pipeline" in command:
            kernel = plan["pipelines"][command["pipeline"]]["kernel"]
            operations = OPERATIONS[kernel](sizes(command, plan))
            label = f"{command['label']}: {kernel}" if gpu.dispatches else kernel
        else:
            kernel, operations, label = "", 0, "clear" if "clear" in command else "copy"
        for count in (found.setdefault(label, Count(label)), total):
            count.add(kernel, operations, moved(command, plan), gpu)
    return [*found.values(), total], core.memory()


def tokens_a_step(name: str) -> int:
    recipe = preset(name)
    tokens: int = recipe.train.batch_size * recipe.train.grad_accum * recipe.model(VOCABULARY).ctx
    return tokens


def result(name: str, gpu: argparse.Namespace) -> dict[str, Any]:
    """A preset's line of the record."""
    (*kernels, total), memory = counts(name, gpu)
    return {
        "preset": name,
        "tokens": tokens_a_step(name),
        "tflops": gpu.tflops,
        "gb_s": gpu.gb_s,
        "memory": memory,
        "step": asdict(total) | {"intensity": total.intensity},
        "kernels": [asdict(kernel) | {"intensity": kernel.intensity} for kernel in kernels],
    }


def earlier(commit: str) -> dict[str, dict[str, Any]]:
    """By preset, what the record of another commit says of a step."""
    command = ["git", "show", f"{commit}:bench/records/gpu-counts.json"]
    text = subprocess.run(command, cwd=record.ROOT, check=True, capture_output=True, text=True)
    then = json.loads(text.stdout)
    return {
        row["preset"]: {"commit": then["commit"]}
        | {key: row["step"][key] for key in ("dispatches", "operations", "bytes", "floor_ms")}
        for row in then["results"]
    }


def write_record(gpu: argparse.Namespace) -> None:
    """A record is of all presets, by kernel; `before` stays where no other commit is named."""
    if gpu.before:
        before = earlier(gpu.before)
    else:
        before = {row["preset"]: row["before"] for row in record.read("gpu-counts")["results"]}
    results = [result(name, gpu) | {"before": before[name]} for name in preset_names()]
    record.write(
        "gpu-counts",
        f"python bench/gpu_counts.py --record --tflops {gpu.tflops:g} --gb-s {gpu.gb_s:g}",
        results,
        ok=all(row["step"]["operations"] > 0 for row in results),
        why="counted from the plans that the core makes; nothing was timed",
    )


def print_tables(name: str, gpu: argparse.Namespace) -> None:
    rows, memory = counts(name, gpu)
    print(
        f"\n## {name}: {tokens_a_step(name):,} tokens a step, {memory['total'] / 2**20:,.1f} MiB "
        f"on the GPU, floor at {gpu.tflops:g} TFLOP/s and {gpu.gb_s:g} GB/s\n"
    )
    print("| kernel | dispatches | second passes | GFLOP | MB | FLOP a byte | floor, ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(row.row())


def main() -> None:
    parser = argparse.ArgumentParser(description="Count a training step's work on a GPU.")
    parser.add_argument("--preset", action="append", choices=preset_names())
    parser.add_argument("--tflops", type=float, default=10.0, help="the GPU's float32 peak")
    parser.add_argument("--gb-s", type=float, default=300.0, help="its memory's bandwidth")
    parser.add_argument("--dispatches", action="store_true", help="a row for each dispatch")
    parser.add_argument(
        "--variants", default="", help="kernels, as in 'attention=flash'; default: the core's"
    )
    parser.add_argument("--before", default="", help="a commit to state the counts of, besides")
    parser.add_argument("--record", action="store_true", help="write the record of every preset")
    gpu = parser.parse_args()
    if gpu.record and (gpu.preset or gpu.dispatches or gpu.variants):
        parser.error("--record is of every preset, by kernel, as the core chooses: give no more")
    if gpu.record:
        write_record(gpu)
        return
    for name in gpu.preset or preset_names():
        print_tables(name, gpu)


if __name__ == "__main__":
    main()
