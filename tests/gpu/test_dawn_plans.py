"""Every preset's plan under all of WebGPU's rules, as Dawn checks them; no driver takes part."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from remote import NODE, ROOT
from tabgpt import _core
from tabgpt.backends.native import core_config
from tabgpt.config import preset, preset_names

BINDING, BUFFER = 128 << 20, 256 << 20  # WebGPU's default limits
Plan = dict[str, Any]


def plan(name: str, mode: str) -> Plan:
    recipe = preset(name)
    config = core_config(recipe.model(65), recipe.train)
    return json.loads(_core.Gpu(config, mode, BINDING, BUFFER).plan())


def faults(plans: dict[str, Plan], folder: Path) -> dict[str, list[str]]:
    """What Dawn refuses, by plan."""
    files = {name: folder / f"{name}.json" for name in plans}
    for name, file in files.items():
        file.write_text(json.dumps(plans[name]))
    command = [str(NODE), str(ROOT / "tests/gpu/plan_worker.ts"), *map(str, files.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {name: found[str(file)] for name, file in files.items()}


@pytest.mark.parametrize("mode", ["infer", "train", "probe"])
def test_dawn_takes_every_presets_plan(mode: str, tmp_path: Path) -> None:
    """Under the default limits, so on every device that has the memory."""
    found = faults({name: plan(name, mode) for name in preset_names()}, tmp_path)
    assert found == {name: [] for name in preset_names()}


def alias(made: Plan) -> None:
    """layernorm_backward reads what it writes."""
    kernels = [pipeline["kernel"] for pipeline in made["pipelines"]]
    command = next(
        c
        for c in made["programs"]["backward"]
        if "pipeline" in c and kernels[c["pipeline"]] == "layernorm_backward"
    )
    modes = made["pipelines"][command["pipeline"]]["bindings"]
    bindings = command["bindings"]
    bindings[modes.index("read")] = bindings[modes.index("read_write")]


def misplace(made: Plan) -> None:
    made["programs"]["forward"][0]["bindings"][-1][1] += 4


def overrun(made: Plan) -> None:
    made["programs"]["forward"][0]["bindings"][-1][2] += 1 << 30


def widen(made: Plan) -> None:
    made["programs"]["forward"][0]["grid"][0] = 65536


def enlarge(made: Plan) -> None:
    made["buffers"][0]["bytes"] = BUFFER + 4


def misuse(made: Plan) -> None:
    made["buffers"][1]["usage"] = "storage"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (alias, "synchronization scope"),
        (misplace, "alignment"),
        (overrun, "is larger than the size"),
        (widen, "65536"),
        (enlarge, "268435460"),
        (misuse, "Uniform"),
    ],
)
def test_dawn_refuses_a_damaged_plan(
    damage: Callable[[Plan], None], said: str, tmp_path: Path
) -> None:
    made = plan("tiny", "train")
    damage(made)
    (found,) = faults({"damaged": made}, tmp_path).values()
    assert found
    assert re.search(said, found[0]), found[0]


def test_dawn_outlives_a_collection_of_garbage() -> None:
    """A worker whose Dawn is collected dies some hundred calls later, in whichever test that is."""
    command = [str(NODE), "--expose-gc", str(ROOT / "tests/gpu/dawn_kept.ts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "alive\n", done.stderr
