"""bench/matmul_counts.py counts what the kernels of shaders/ do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tabgpt import shaders

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from attention_counts import GPUS
from matmul_counts import KERNELS, Sizes, bytes_read, floor_ms

CUBE = Sizes(2048, 2048, 2048, 1)


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_are_the_shaders(name: str) -> None:
    """Side and depth, as far as the shader says them as constants."""
    code = shaders.kernel(f"matmul_{name}").code
    sizes = dict(re.findall(r"^const (SIDE|DEPTH|TILE): u32 = (\d+)u;", code, re.M))
    kernel = KERNELS[name]
    assert int(sizes.get("SIDE", sizes.get("TILE", kernel.side))) == kernel.side
    assert int(sizes.get("DEPTH", sizes.get("TILE", kernel.depth))) == kernel.depth
    assert ("SPLIT" in shaders.kernel(f"matmul_{name}").overrides) >= kernel.splits


def test_every_product_kernel_is_counted() -> None:
    names = {name.removeprefix("matmul_") for name in shaders.names() if "matmul_" in name}
    assert names - {"split"} == set(KERNELS)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_floors_are_in_the_order_that_the_design_says(gpu) -> None:
    ms = {name: floor_ms(kernel, CUBE, gpu) for name, kernel in KERNELS.items()}
    assert ms["vec4"] < ms["blocked8"] < ms["blocked4"] < ms["tiled"]
    assert ms["vec4"] * 1e-3 * 2e9 * 128 * gpu.units * gpu.ghz >= CUBE.operations  # its peak


def test_parts_fill_idle_units_and_a_larger_tile_reads_less() -> None:
    few, split = Sizes(128, 128, 4096, 1), Sizes(128, 128, 4096, 16)
    assert floor_ms(KERNELS["vec4"], split, GPUS[0]) < floor_ms(KERNELS["vec4"], few, GPUS[0]) / 4
    assert bytes_read(KERNELS["blocked4"], CUBE) == bytes_read(KERNELS["tiled"], CUBE) / 4
