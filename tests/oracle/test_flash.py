"""Attention by tiles, FlashAttention-2's way, is attention: to float64's rounding, at any tile."""

from __future__ import annotations

import numpy as np
import pytest
from tabgpt import flash, ops, philox
from tabgpt.ops import Dropout

LAYER = 3
TIGHT = 1e-12
"""Of a sum's largest element: float64 over at most 67 terms is a hundredth of it."""

SIZES = [(1, 1, 1, 1), (2, 5, 3, 2), (1, 13, 2, 7), (2, 33, 1, 8), (1, 64, 2, 5), (1, 67, 1, 3)]
TILES = [(4, 4), (5, 3), (3, 8), (1, 64), (16, 64), (64, 16), (64, 64), (200, 200)]
"""(queries, keys): square or not, dividing T or not, larger than T."""


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(len(shape)).standard_normal(shape)


def close(got: np.ndarray, expected: np.ndarray, size: float = 0.0) -> None:
    """`size`: of a sum's terms, where they cancel."""
    assert got.shape == expected.shape
    error = abs(got - expected)
    limit = TIGHT * max(size, abs(expected).max())
    worst = np.unravel_index(error.argmax(), error.shape)
    assert error.max() <= limit, (
        f"{list(map(int, worst))} is {got[worst]}, not {expected[worst]}; allowed {limit:.1e}"
    )


def compare(B: int, T: int, H: int, D: int, p: float, tile: tuple[int, int],
            scale: float = 1.0) -> None:  # fmt: skip
    """Both halves by tiles against ops's."""
    dropout = Dropout(p, seed=3000000019, step=41, micro=1)
    whole = dropout.factor((B, H, T, T), LAYER, ops.ATTENTION)
    by_tile = flash.dropout_tiles(dropout, B, H, T, LAYER, ops.ATTENTION)
    qkv, dout = normal(B, T, 3 * H * D, scale=scale), normal(B, T, H * D)
    out, lse = ops.attention_forward(qkv, H, whole)
    dqkv = ops.attention_backward(dout, out, lse, qkv, H, whole)
    got_out, got_lse = flash.flash_forward(qkv, H, by_tile, *tile)
    close(got_out, out)
    close(got_lse, lse)
    got = flash.flash_backward(dout, out, lse, qkv, H, by_tile, *tile)
    for part, wanted in zip(np.split(got, 3, -1), np.split(dqkv, 3, -1), strict=True):
        close(part, wanted, abs(qkv).max() * abs(dout).max() if scale > 1 else 0.0)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("size", SIZES)
def test_tiles_give_what_the_whole_matrix_gives(
    size: tuple[int, int, int, int], tile: tuple[int, int], p: float
) -> None:
    compare(*size, p, tile)


@pytest.mark.parametrize("tile", [(4, 4), (5, 3), (64, 64)])
def test_scores_beyond_what_exp_holds(tile: tuple[int, int]) -> None:
    """Scores of some thousands: only differences from the largest are ever exponentiated."""
    compare(1, 33, 2, 8, 0.0, tile, scale=40.0)


@pytest.mark.parametrize("tile", [(4, 4), (5, 3), (3, 8)])
def test_tiles_in_the_future_are_never_made(tile: tuple[int, int]) -> None:
    """Each tile with a key in some query's past once a pass, and no other."""
    T = 13
    rows, keys = tile
    made: list[tuple[int, int]] = []

    def note(queries: slice, keys: slice) -> float:
        made.append((queries.start, keys.start))
        return 1.0

    wanted = [
        (i, j) for i in range(0, T, rows) for j in range(0, T, keys) if j <= min(i + rows, T) - 1
    ]
    qkv, dout = normal(1, T, 6), normal(1, T, 2)
    out, lse = flash.flash_forward(qkv, 1, note, *tile)
    assert made == wanted
    made.clear()
    flash.flash_backward(dout, out, lse, qkv, 1, note, *tile)
    assert sorted(made) == sorted(2 * wanted)


def test_a_tile_of_dropout_is_cut_out_of_the_whole() -> None:
    dropout = Dropout(0.4, seed=9, step=5, micro=3)
    whole = dropout.factor((2, 3, 7, 7), LAYER, ops.ATTENTION)
    tile = flash.dropout_tiles(dropout, 2, 3, 7, LAYER, ops.ATTENTION)(slice(2, 6), slice(1, 7))
    np.testing.assert_array_equal(tile, whole[:, :, 2:6, 1:7])


def test_bits_of_any_elements_are_the_streams() -> None:
    """In any order, and past 2^34, where a block's number needs its upper word."""
    order = np.array([[5, 0, 3], [8, 2, 7]], np.uint64)
    np.testing.assert_array_equal(philox.bits_at(7, order, 4, 9), philox.bits(7, 9, 4, 9)[order])
    far = np.uint64(2**36 + 2)
    words = philox.bits_at(7, np.arange(5, dtype=np.uint64) + far, 4, 9)
    np.testing.assert_array_equal(words, philox.bits(7, 5, 4, 9, first=int(far)))
