"""Writes tests/gpu/plans/*.txt: the core's GPU plans of three presets, to be read in review.

python tests/write_plans.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tabgpt import _core, shaders
from tabgpt.backends.native import core_config
from tabgpt.config import preset

FOLDER = Path(__file__).parent / "gpu/plans"
PLANS = {"tiny": "train", "small": "probe", "xl": "infer"}
VOCABULARY = 65


def file_of(name: str) -> Path:
    return FOLDER / f"{name}-{PLANS[name]}.txt"


def text(name: str) -> str:
    """Buffers, then each program: what a dispatch computes, reads and writes."""
    recipe = preset(name)
    config = core_config(recipe.model(VOCABULARY), recipe.train)
    made = json.loads(_core.Gpu(config, PLANS[name], 1 << 40, 1 << 40).plan())
    buffers = made["buffers"]
    lines = [f"preset {name}, mode {PLANS[name]}, vocabulary {VOCABULARY}", "", "buffers"]
    lines += [f"  {b['name']:<16} {b['bytes']:>12,} bytes  {b['usage']}" for b in buffers]
    for program, commands in made["programs"].items():
        lines += ["", program, *(f"  {_command(command, made)}" for command in commands)]
    return "\n".join(lines) + "\n"


def _command(command: dict[str, Any], made: dict[str, Any]) -> str:
    names = [buffer["name"] for buffer in made["buffers"]]
    if "clear" in command:
        buffer, offset, size = command["clear"]
        return f"clear {names[buffer]}[{offset}:+{size}]"
    if "copy" in command:
        source, at, target, to, size = command["copy"]
        return f"copy {names[source]}[{at}:+{size}] to {names[target]}[{to}]"
    pipeline = made["pipelines"][command["pipeline"]]
    kernel = shaders.kernel(pipeline["kernel"])
    constants = [f"{key}={value}" for key, value in pipeline["constants"].items() if value]
    start = (command["bindings"][0][1] - made["words"]["offset"]) // 4
    words = made["words"]["data"][start : start + len(kernel.params)]
    sizes = [
        f"{key}={_size(word, kind)}" for (key, kind), word in zip(kernel.params, words, strict=True)
    ]
    parts = [
        f"{name} {mode} {names[buffer]}[{offset}:+{size}]"
        for (name, mode), (buffer, offset, size) in zip(
            kernel.bindings, command["bindings"], strict=True
        )
        if mode != "uniform"
    ]
    grid = "x".join(map(str, command["grid"]))
    head = " ".join([f"{command['label']}: {kernel.name}", *constants, *sizes, f"grid {grid}"])
    return "\n      ".join([head, *parts])


def _size(word: int, kind: str) -> str:
    if kind == "f32":
        return f"{np.uint32(word).view(np.float32):.7g}"
    return str(word)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in PLANS:
        file_of(name).write_text(text(name))


if __name__ == "__main__":
    main()
