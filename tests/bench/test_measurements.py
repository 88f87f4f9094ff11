"""The timing scripts at tiny sizes: what they record, and that verdicts see a wrong result."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import command  # noqa: E402
import matmul_native  # noqa: E402
import matmul_tab  # noqa: E402
import pairs  # noqa: E402
import record  # noqa: E402

SAMPLE_S = 1e-3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A short warm-up, and records in a folder of the test's own."""
    monkeypatch.setattr(pairs, "WARM_UP_S", 0.01)
    monkeypatch.setattr(record, "RECORDS", tmp_path)


def assert_recorded(what: str, results: list[dict[str, Any]], ok: bool, why: str) -> None:
    assert ok, why
    record.write(what, "a test", results, ok=ok, why=why)
    assert record.read(what)["results"] == results


def test_pairs_alternate_and_keep_every_sample() -> None:
    order: list[str] = []
    timing = pairs.compare(
        lambda: (order.append("ours"), time.sleep(0.004)),
        lambda: (order.append("peer"), time.sleep(0.002)),
        pairs=4,
        sample_s=SAMPLE_S,
    )
    turns = [side for side, _ in itertools.groupby(order)]
    # Two warm-ups, then who goes first alternates, so that neighbours of one side merge.
    assert turns == ["ours", "peer", "ours", "peer", "ours", "peer", "ours"]
    assert len(timing["ours_s"]) == len(timing["peer_s"]) == 4
    assert min(timing["peer_s"]) >= 0.002
    assert timing["ratio"]["q1"] <= timing["ratio"]["median"] <= timing["ratio"]["q3"]


def test_a_sample_is_never_shorter_than_a_millisecond_and_twenty_quanta() -> None:
    timing = pairs.compare(lambda: None, lambda: None, pairs=2, sample_s=0)
    least = max(pairs.LEAST_SAMPLE_S, pairs.LEAST_QUANTA * timing["quantum_s"])
    for side in ("ours", "peer"):
        assert all(s * timing[f"{side}_calls"] >= 0.99 * least for s in timing[f"{side}_s"])


def test_a_ratio_above_one_means_that_ours_is_faster() -> None:
    assert pairs.ratio([1, 2, 4], [2, 4, 4]) == {"median": 2, "q1": 1.5, "q3": 2}
    assert pairs.geometric_mean([0.5, 2]) == pytest.approx(1)


def test_threads_that_spin_are_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs.wait_until_idle()
    monkeypatch.setattr(pairs, "IDLE_LIMIT_S", 0.05)
    monkeypatch.setattr(time, "process_time", itertools.count().__next__)
    with pytest.raises(RuntimeError, match=r"still spin after 0\.05 s"):
        pairs.wait_until_idle()


def test_native_products_are_compared_with_openblas() -> None:
    results = matmul_native.run([(8, 5, 7), (16, 33, 12)], count=2, sample_s=SAMPLE_S)
    assert {(row["form"], row["threads"]) for row in results} == set(
        itertools.product(matmul_native.FORMS, matmul_native.THREADS)
    )
    assert all(row["openblas"] for row in results)
    assert_recorded("matmul-native", results, *matmul_native.verdict(results))
    for wrong in (1.5, float("nan")):
        results[3]["error"]["ours"] = wrong
        assert not matmul_native.verdict(results)[0]


def test_native_step_is_compared_with_pytorch() -> None:
    pytest.importorskip("torch", reason="the extra interop has PyTorch")
    import step_torch

    recipe = command.QUICK.recipe(step_torch.PRESET)
    results = step_torch.run(recipe, ["eager"], count=2, sample_s=SAMPLE_S)
    assert [row["threads"] for row in results] == [1, 2]
    assert_recorded("step-torch", results, *step_torch.verdict(results))
    results[0]["losses_relative"] = float("nan")
    assert not step_torch.verdict(results)[0]


def test_products_in_the_tab_are_compared_with_register_loops_and_one_thread() -> None:
    with matmul_tab.open_tab(count=2, sample_s=SAMPLE_S) as tab:
        results = matmul_tab.run(tab, (16, 33, 12), [], (24, 40, 20))
    loops = {f"{rows}x{columns}" for rows, columns in matmul_tab.LOOPS}
    for kernels in matmul_tab.KERNELS:
        rows = [row for row in results if row["build"] == kernels]
        assert {row["loop"] for row in rows} == loops
        assert {row["isa"] for row in rows} == {f"wasm-{kernels}"}
        threaded = [row for row in results if row["build"] == f"{kernels}-threads"]
        assert {row["form"] for row in threaded} == set(matmul_tab.FORMS)
    assert_recorded("matmul-tab", results, *matmul_tab.verdict(results))
    for key in ("error", "loop_error"):
        assert not matmul_tab.verdict([*results, {"error": 0, "loop_error": 0, key: 2}])[0]
