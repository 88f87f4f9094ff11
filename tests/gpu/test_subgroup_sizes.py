"""matmul_subgroup where a subgroup has other than the usual number of threads.

Lavapipe's subgroups are as wide as the CPU's vectors that it is told to use, so a process of its
own for each width. Sizes that no adapter here has are computed: who gives what to whom.
"""

from __future__ import annotations

import numpy as np
import pytest
from case_dense import Matmul
from kernel_calls import UNUSED
from kernel_products import Product
from kernel_runner import Dispatch, Kernels, unwritten
from run_case import answer

SIZES = """
struct Params { n: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(subgroup_size) size: u32) {
  if (thread < p.n) {
    out[thread] = f32(size);
  }
}
"""


@pytest.mark.parametrize(("bits", "threads"), [(128, 4), (512, 16)])
def test_products_by_subgroups_of_another_size(
    monkeypatch: pytest.MonkeyPatch, bits: int, threads: int
) -> None:
    """8, lavapipe's own, is among the cases of test_kernels.py."""
    monkeypatch.setenv("LP_NATIVE_VECTOR_WIDTH", str(bits))
    kernels = Kernels("naga")
    try:
        ask = Dispatch("sizes", (1, 1, 1), {"n": 4}, {"out": "out"}, code=SIZES)
        sizes = kernels.run({"out": unwritten(4)}, [ask], ["out"])["out"]
        assert (sizes == threads).all(), sizes
        case = Matmul("NN", 65, 129, 67)
        x, expected, bound = answer(case)
        run = Product("matmul_subgroup", 64).dispatches(case)
        out = kernels.run({**UNUSED, **x, "out": unwritten(65, 129)}, run, ["out"])["out"]
        assert (abs(out - expected["out"]) <= bound["out"]).all()
    finally:
        kernels.stop()


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("order", ["as they are", "reversed", "shuffled"])
def test_four_neighbours_share_their_rows_at_any_size(size: int, order: str) -> None:
    """As main and fragment_a number threads: places are taken once, fours lie in one subgroup.

    `place` is the thread that does the work, `lane` its number within the subgroup.
    """
    threads = np.arange(256).reshape(-1, size)
    if order == "reversed":
        threads = threads[:, ::-1]
    elif order == "shuffled":
        threads = np.random.default_rng(1).permuted(threads, axis=1)
    lane = np.broadcast_to(np.arange(size), threads.shape)
    place = threads.min(axis=1, keepdims=True) + lane
    assert sorted(place.reshape(-1)) == list(range(256))
    first = lane // 4 * 4
    for k in range(4):
        giver = np.take_along_axis(place, first + k, axis=1)
        assert (giver // 16 == place // 16).all(), "whose rows are others"
        assert (giver % 4 == k).all(), "who has read another of K"
        assert ((place % 16) // 4 == (giver % 16) // 4).all()
