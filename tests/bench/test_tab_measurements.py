"""The scripts that measure sessions and libraries in the tab, at their quick size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import command  # noqa: E402
import generation  # noqa: E402
import kernels_tab  # noqa: E402
import matmul_peers  # noqa: E402
import memory64  # noqa: E402
import pairs  # noqa: E402
import peers  # noqa: E402
import record  # noqa: E402
import step_sizes  # noqa: E402
import step_threads  # noqa: E402

Rows = list[dict[str, Any]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[ModuleType], Rows]:
    """Runs a script's measurement as --quick does; its results, which fit into a record."""
    monkeypatch.setattr(pairs, "WARM_UP_S", 0.01)
    monkeypatch.setattr(record, "RECORDS", tmp_path)

    def measure(script: ModuleType) -> Rows:
        outcome = script.measure(command.QUICK)
        assert outcome.ok, outcome.why
        what = script.__name__.replace("_", "-")
        said = {"ok": True, "why": outcome.why, "clock": outcome.clock, **outcome.machine}
        record.write(what, "a test", outcome.results, **said)
        assert record.read(what)["machine"]["browser"].startswith("Chromium")
        rows: Rows = outcome.results
        return rows

    return measure


def test_two_threads_are_compared_with_one(measured: Callable[[ModuleType], Rows]) -> None:
    rows = measured(step_threads)
    assert [row["where"] for row in rows] == ["native", "tab"]
    assert all(row["equal_losses"] for row in rows)


def test_sizes_are_compared_by_parameter_and_token(
    measured: Callable[[ModuleType], Rows],
) -> None:
    rows = measured(step_sizes)
    sizes = [row for row in rows if "preset" in row]
    assert {(row["where"], row["preset"]) for row in sizes} == {
        (where, name) for where in ("native", "tab") for name in step_sizes.PRESETS
    }
    for row in sizes:
        assert row["per"] * row["parameters"] * row["tokens"] == pytest.approx(
            sorted(row["seconds"])[0] / 2 + sorted(row["seconds"])[1] / 2
        )
    between = [row for row in rows if "slowest" in row]
    assert [row["where"] for row in between] == ["native", "tab"]


def test_the_spread_is_the_slowest_size_over_the_fastest() -> None:
    per = {"a": [2.0, 3.0, 2.0], "b": [1.0, 1.0, 4.0], "c": [2.0, 2.0, 1.0]}
    assert step_sizes.spread(per) == {
        "slowest": "c",
        "fastest": "b",
        "ratio": {"median": 2, "q1": pytest.approx(1.125), "q3": 2},
    }


def test_64_bit_memory_is_compared_with_32_bit_and_without_bounds_checks(
    measured: Callable[[ModuleType], Rows],
) -> None:
    rows = measured(memory64)
    assert [(row["kernels"], row["bounds_checks"]) for row in rows] == [
        (kernels, kept) for kernels in memory64.KERNELS for kept in (True, False)
    ]
    assert all(row["equal_losses"] for row in rows)


def test_late_tokens_are_compared_with_early_ones(measured: Callable[[ModuleType], Rows]) -> None:
    rows = measured(generation)
    assert [row["where"] for row in rows] == ["native", "tab"]
    assert all(row["positions"] == [10, 26] for row in rows)


def test_a_token_that_is_not_the_best_one_is_seen() -> None:
    logits = [[0.0, 4.0, 3.0]] * 64

    def generate(prompt: Any, count: int) -> tuple[float, list[int]]:
        return 0.1, [1] * count + [2]

    short = generation.shortfall(generate, lambda ids: np.array(logits[: len(ids)]), 10)
    assert short == pytest.approx(1 / 4)


def test_the_step_in_the_tab_is_compared_with_pytorch_and_the_scalar_build(
    measured: Callable[[ModuleType], Rows],
) -> None:
    pytest.importorskip("torch", reason="the extra interop has PyTorch")
    import step_tab

    rows = measured(step_tab)
    assert [row["against"] for row in rows] == ["eager", "scalar"]


def test_every_stage_trains_alike_and_is_compared_with_the_scalar_build(
    measured: Callable[[ModuleType], Rows],
) -> None:
    pytest.importorskip("torch", reason="the extra interop has PyTorch")
    import evolution
    from stage import CONTROLS, STAGES, TABLE

    rows = measured(evolution)
    assert [row["stage"] for row in rows] == [stage["name"] for stage in (*STAGES, *CONTROLS)]
    gains = [(row["stage"], gain["over"]) for row in rows for gain in row.get("gains", [])]
    assert sorted(gains) == sorted((gain["stage"], gain["over"]) for gain in TABLE["gains"])
    (scalar,) = (row for row in rows if row["stage"] == TABLE["baseline"])
    assert scalar["ratio"]["median"] == 1
    assert [row for row in rows if "adapter" in row]


def test_products_in_the_tab_are_compared_with_other_libraries(
    measured: Callable[[ModuleType], Rows],
) -> None:
    if not peers.MODULES.exists():
        pytest.skip("`make peers` installs the other libraries")
    rows = measured(matmul_peers)
    assert {row["peer"] for row in rows} == set(matmul_peers.PEERS.values())
    assert {row["form"] for row in rows} == set(matmul_peers.FORMS)


def test_the_bench_page_is_driven_and_compared_with_other_libraries(
    measured: Callable[[ModuleType], Rows],
) -> None:
    if not peers.MODULES.exists():
        pytest.skip("`make peers` installs the other libraries")
    rows = measured(kernels_tab)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    beside = [row for row in rows if row["kind"] == "peer"]
    assert {row["peer"] for row in beside} == set(kernels_tab.PEERS.values())
    assert {row["variant"] for row in beside} < {row["variant"] for row in kernels}
    assert all(row["software"] for row in rows)


def test_a_loss_that_is_not_a_number_fails() -> None:
    assert not command.relative([1.0, float("nan")], [1.0, 1.0]) <= 1
    assert command.relative([1.0, 2.0], [1.0, 2.5]) == pytest.approx(0.2)
