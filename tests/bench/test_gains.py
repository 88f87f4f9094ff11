"""A gain below what its cause explains is explained by figures of the same run, or not at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import gains  # noqa: E402

NEAR_NS, FAR_NS = 60.0, 200.0
THREADS = {"stage": "two", "over": "one", "least": 1.7, "cause": "threads", "control": "twice"}
WIDTH = {"stage": "wide", "over": "narrow", "least": 0.8, "cause": "width", "control": "free"}


def threads(gain: float, control: float, handover_ns: float) -> Any:
    seconds = {"one": [1.0, 1.0], "two": [1 / gain] * 2, "twice": [1 / control] * 2}
    return gains.gain_of(THREADS, seconds, handover_ns)["why"]


def test_what_is_as_it_should_be_needs_no_reason() -> None:
    assert threads(1.8, 2.0, FAR_NS) == ""


def test_two_threads_are_held_against_two_runs_at_once() -> None:
    assert "came to 1.60 ×" in threads(1.5, 1.6, NEAR_NS)
    assert threads(1.5, 2.0, NEAR_NS) is None


def test_cores_that_share_no_cache_are_a_reason() -> None:
    assert "took 200 ns" in threads(1.5, 2.0, FAR_NS)


@pytest.mark.parametrize(("free", "explained"), [(0.95, True), (0.75, False)])
def test_64_bits_are_held_against_a_run_without_bounds_checks(free: float, explained: bool) -> None:
    seconds = {"narrow": [1.0, 1.0], "wide": [1 / 0.7] * 2, "free": [1 / free] * 2}
    why = gains.gain_of(WIDTH, seconds, NEAR_NS)["why"]
    assert (why is not None and f"was {free:.2f} ×" in why) if explained else why is None


LANES = {
    "stage": "relaxed",
    "over": "simd",
    "least": 1.1,
    "cause": "lanes",
    "control": "relaxed twice",
    "beside": "simd twice",
}


@pytest.mark.parametrize(
    ("free", "handover_ns", "explained"),
    [(1.2, FAR_NS, True), (1.2, NEAR_NS, False), (1.05, FAR_NS, False)],
)
def test_fma_on_two_threads_is_held_against_two_runs_at_once(
    free: float, handover_ns: float, explained: bool
) -> None:
    seconds = {"simd": [1.0, 1.0], "relaxed": [1.0, 1.0], "simd twice": [0.5, 0.5]}
    seconds["relaxed twice"] = [0.5 / free] * 2
    why = gains.gain_of(LANES, seconds, handover_ns)["why"]
    assert (why is not None and f"gained {free:.2f} ×" in why) if explained else why is None


def test_a_gain_without_a_cause_of_its_own_stays_unexplained() -> None:
    relaxed = {"stage": "relaxed", "over": "simd", "least": 1.1}
    seconds = {"simd": [1.0, 1.0], "relaxed": [1.0, 1.0]}
    assert gains.gain_of(relaxed, seconds, NEAR_NS)["why"] is None


def test_each_gain_of_the_table_names_what_is_measured() -> None:
    table = json.loads((ROOT / "bench/stages.json").read_text())
    stages = {stage["name"] for stage in table["stages"]}
    controls = {control["name"] for control in table["controls"]}
    for gain in table["gains"]:
        assert {gain["stage"], gain["over"]} <= stages
        assert {gain.get("control"), gain.get("beside")} <= {*controls, None}
        assert gain.get("cause") in {*gains.SENTENCES, None}


def test_the_record_explains_each_gain_that_is_smaller_than_its_cause() -> None:
    """Threads below 1.7, relaxed below 1.1 of SIMD, 64 bits below 0.8: why, by its figures."""
    table = json.loads((ROOT / "bench/stages.json").read_text())
    results = json.loads((ROOT / "bench/records/evolution.json").read_text())["results"]
    for preset in table["presets"]:
        rows = [{**row, "gains": []} for row in results if row["preset"] == preset]
        recorded = [row.get("gains", []) for row in results if row["preset"] == preset]
        gains.add(rows, table["gains"], max(rows[0]["handover_ns"]))
        assert [row["gains"] for row in rows] == recorded
        missed = [gain for row in rows for gain in row["gains"] if gain["why"] is None]
        assert not missed, f"{preset}: explain by a control in stages.json, or measure again"
