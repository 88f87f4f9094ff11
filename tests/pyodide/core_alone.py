"""Runs in Pyodide without numpy: the core trains from array.array, and its errors come through.

Reads one JSON line {config, tokens, prompt} from standard input; writes one of what it saw.
"""

from __future__ import annotations

import array
import importlib.util
import json
import sys
from importlib.metadata import distribution

STEPS = 50


def load_core():
    """tabgpt._core by itself: the package around it needs numpy."""
    files = distribution("tabgpt").files
    path = next(str(file.locate()) for file in files if file.name.startswith("_core."))
    spec = importlib.util.spec_from_file_location("tabgpt._core", path)
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


def refusal(call) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def main() -> None:
    given = json.loads(sys.stdin.readline())
    core = load_core()
    config = core.Config(given["config"])
    session = core.Session(config, "train", 1)
    session.init_weights()
    session.set_tokens(array.array("I", given["tokens"]))
    losses = []
    for _ in range(STEPS):
        session.step()
        losses.append(session.metric("loss"))
    batch = memoryview(array.array("I", given["batch"])).cast("B").cast("I", (2, 4))
    session.generate_begin(array.array("I", given["prompt"]), 1.0, 0, 1.0, 3)
    print(
        json.dumps(
            {
                "isa": core.isa(),
                "threads": core.has_threads(),
                "parameters": config.n_parameters,
                "memory": core.memory(config, "train", 1, 0),
                "losses": losses,
                "val_loss": session.evaluate("val"),
                "batch_loss": session.loss(batch, batch),
                "generated": [session.generate_next() for _ in range(5)],
                "refused": refusal(lambda: core.Config({**given["config"], "n_head": 5})),
                "no_numpy": refusal(lambda: session.tensor("transformer.wte.weight")),
                "python": sys.version.split()[0],
            }
        )
    )


main()
