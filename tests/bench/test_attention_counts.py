"""What is counted of attention's tiles is what the tiled reference does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import attention_counts as counts  # noqa: E402
from tabgpt import flash  # noqa: E402


@pytest.mark.parametrize("length", [1, 64, 65, 200])
def test_tiles_are_those_that_the_reference_makes(length: int) -> None:
    made = []

    def note(queries: slice, keys: slice) -> float:
        made.append((queries, keys))
        return 1.0

    flash.flash_forward(np.zeros((1, length, 3)), 1, note)
    assert counts.TILE == flash.TILE
    assert counts.Sizes(2, 3, length, 8).tile_pairs == 6 * len(made)


def test_whole_tiles_read_as_flash_wgsl_says() -> None:
    """In units of 64 head_dim floats a pair of tiles; a row at a time in brackets there."""
    one = counts.Sizes(1, 1, counts.TILE, 64)
    unit = 4 * counts.TILE * 64
    read = {
        name: counts.by_tile(kernel, one).read / unit for name, kernel in counts.KERNELS.items()
    }
    assert read == {"forward": 3, "dq": 5, "dkv": 6}
    rows = {
        name: counts.by_row(kernel, one).read / unit / one.row_pairs * counts.TILE**2
        for name, kernel in counts.KERNELS.items()
    }
    assert rows == {"forward": 128, "dq": 192, "dkv": 256}
    text = (ROOT / "shaders/flash.wgsl").read_text(encoding="utf-8")
    for name in read:
        assert f": {read[name]:.0f} ({rows[name]:.0f})" in text


def test_reads_grow_with_the_length_and_bytes_moved_do_not() -> None:
    """Of as many tokens."""
    short, long = counts.Sizes(16, 2, 256, 64), counts.Sizes(1, 2, 4096, 64)
    for kernel in counts.KERNELS.values():
        for way in (counts.by_row, counts.by_tile):
            assert way(kernel, long).moved == way(kernel, short).moved
            assert way(kernel, long).operations > 10 * way(kernel, short).operations
