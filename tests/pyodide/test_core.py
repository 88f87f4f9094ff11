"""The wheel for Pyodide loads in Node, and its core computes, without numpy."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyodide_node as node
import pytest
import trajectory
from tabgpt import _core
from trajectory import BOUND, MODEL, TRAIN

HERE = Path(__file__).resolve().parent
CONFIG = {**MODEL.to_dict(), **TRAIN.to_dict()}
BATCH, PROMPT = [1, 2, 3, 4, 5, 6, 7, 8], [3, 1, 2]


@pytest.fixture(scope="module")
def there() -> dict[str, Any]:
    """What core_alone.py saw in Pyodide."""
    given = {"config": CONFIG, "tokens": trajectory.tokens().tolist()}
    given |= {"batch": BATCH, "prompt": PROMPT}
    seen = node.run(HERE / "core_alone.py", ["tabgpt"], stdin=json.dumps(given) + "\n")
    result: dict[str, Any] = json.loads(seen)
    return result


@pytest.fixture(scope="module")
def here() -> _core.Session:
    session = _core.Session(_core.Config(CONFIG), "train", 1)
    session.init_weights()
    session.set_tokens(trajectory.tokens())
    return session


def test_it_is_the_build_that_was_meant(there: dict[str, Any]) -> None:
    assert (there["isa"], there["threads"]) == ("wasm-simd", False)
    assert there["python"].startswith("3.14")
    config = _core.Config(CONFIG)
    assert there["parameters"] == config.n_parameters
    assert there["memory"] == _core.memory(config, "train", 1, 0)


def test_fifty_steps_are_the_native_cores(there: dict[str, Any], here: _core.Session) -> None:
    """From each core's own first weights, which are equal but for log's and cos's last bit."""
    losses = []
    for _ in range(len(there["losses"])):
        here.step()
        losses.append(here.metric("loss"))
    assert len(losses) == trajectory.STEPS
    np.testing.assert_allclose(there["losses"], losses, rtol=BOUND)
    assert there["val_loss"] == pytest.approx(here.evaluate("val"), rel=BOUND)
    batch = np.array(BATCH, np.uint32).reshape(2, 4)
    assert there["batch_loss"] == pytest.approx(here.loss(batch, batch), rel=BOUND)
    assert all(0 <= token < MODEL.vocab_size for token in there["generated"])


def test_errors_come_through_in_the_same_words(there: dict[str, Any]) -> None:
    with pytest.raises(_core.TabgptError) as refused:
        _core.Config({**CONFIG, "n_head": 5})
    assert there["refused"] == f"TabgptError: {refused.value}"
    assert there["no_numpy"].startswith("ModuleNotFoundError") and "numpy" in there["no_numpy"]


def test_the_wheel_holds_the_package_and_no_site() -> None:
    wheels = json.loads((node.LAYOUT / "packages.json").read_text())["wheels"]
    name = next(wheel for wheel in wheels if wheel.startswith("tabgpt-"))
    assert name.endswith("-cp314-cp314-pyemscripten_2026_0_wasm32.whl")
    with zipfile.ZipFile(node.LAYOUT / "wheels" / name) as wheel:
        names = wheel.namelist()
    assert "tabgpt/presets.json" in names and "tabgpt/shaders/adamw.wgsl" in names
    assert not [name for name in names if name.startswith("tabgpt/site/")]
