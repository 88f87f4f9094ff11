"""The script that takes the largest preset through its life, with the smallest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import behemoth  # noqa: E402
from tabgpt.config import preset  # noqa: E402

PRESET = "tiny"


@pytest.mark.parametrize(("where", "host"), [("node", behemoth.in_node), ("tab", behemoth.in_tab)])
def test_a_model_is_trained_saved_freed_and_loaded_again(where: str, host: Any) -> None:
    core = behemoth.native(PRESET)
    with host() as (ask, peak, _):
        row = behemoth.life(where, ask, peak, preset(PRESET))
    row["peak_bytes"] = row["training_peak_bytes"]  # a tiny model's is the engine's own
    ok, why = behemoth.verdict([core, row], needs_64=False)
    assert ok, why
    assert row["build"] == behemoth.BUILD  # 32 bits hold it
    assert row["refused_32"] == ""
    for key, wrong in {
        "losses": [*row["losses"][:-1], 9.0],
        "loss_after_load": 9.0,
        "peak_bytes": 2 * row["training_peak_bytes"],
        "held_bytes_closed": row["plan_bytes"],
    }.items():
        assert not behemoth.verdict([core, row | {key: wrong}], needs_64=False)[0]
    assert not behemoth.verdict([core, row], needs_64=True)[0]
