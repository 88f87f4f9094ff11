"""The generator is the published one, and streams are laid out as the counter table says."""

from __future__ import annotations

import numpy as np
import pytest
from tabgpt import philox

# philox4x32 with 10 rounds in Random123's kat_vectors: counter, key, output.
PUBLISHED = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "output"), PUBLISHED)
def test_published_vectors(counter: str, key: str, output: str) -> None:
    k0, k1 = words(key)
    got = philox.philox4x32(np.array(words(counter), np.uint32), (k0, k1))
    assert got.tolist() == words(output)


def test_element_i_is_word_i_mod_4_of_block_i_div_4() -> None:
    c2, c3 = 9, philox.stream(philox.DROPOUT, micro=2, layer=3, site=1)
    assert c3 == 0x03020031
    got = philox.bits(77, 11, c2, c3)
    for i in range(11):
        block = philox.philox4x32(np.array([i // 4, 0, c2, c3], np.uint32), (77, 0))
        assert got[i] == block[i % 4]


@pytest.mark.parametrize("first", [1, 6, 2**34 - 3, 2**34 + 5, 2**62 + 3])
def test_block_index_is_64_bits_wide(first: int) -> None:
    got = philox.bits(5, 9, 1, 2, first=first)
    for offset in range(9):
        block, word = divmod(first + offset, 4)
        counter = np.array([block & 0xFFFFFFFF, block >> 32, 1, 2], np.uint32)
        assert got[offset] == philox.philox4x32(counter, (5, 0))[word]


def test_uniform_is_24_bits_below_1() -> None:
    largest = philox.to_uniform(np.array([0, 255, 256, 0xFFFFFFFF], np.uint32))
    assert largest.tolist() == [0.0, 0.0, 2.0**-24, 1 - 2.0**-24]
    u = philox.uniform(1, 100_000, 0, 0)
    assert u.astype(np.float32).tolist() == u.tolist()
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)


def test_normals_are_box_muller_of_words_01_and_23() -> None:
    u = philox.uniform(3, 8, 0, 16)
    z = philox.normal(3, 7, 0, 16)
    for pair in range(3):
        radius = np.sqrt(-2 * np.log1p(-u[2 * pair]))
        assert z[2 * pair] == pytest.approx(radius * np.cos(2 * np.pi * u[2 * pair + 1]), rel=1e-14)
        assert z[2 * pair + 1] == pytest.approx(
            radius * np.sin(2 * np.pi * u[2 * pair + 1]), rel=1e-14
        )


def test_normals_are_normal() -> None:
    z = philox.normal(3, 200_000, 0, 16)
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size)
    assert abs((z**4).mean() - 3) < 5 * np.sqrt(96 / z.size)


def test_streams_differ_in_every_coordinate() -> None:
    base = {"use": philox.DROPOUT, "micro": 1, "layer": 1, "site": 1}
    streams = {philox.stream(**base)} | {
        philox.stream(**(base | {name: 2})) for name in ("use", "micro", "layer", "site")
    }
    assert len(streams) == 5
    drawn = [philox.bits(1, 4, 0, c3).tolist() for c3 in streams]
    drawn += [philox.bits(1, 4, 1, philox.stream(**base)).tolist()]
    drawn += [philox.bits(2, 4, 0, philox.stream(**base)).tolist()]
    assert len({tuple(d) for d in drawn}) == 7
