"""What attention asks of a GPU by each way to compute it, counted; no GPU takes part.

    python bench/attention_counts.py                           nanogpt-baby's layer
    python bench/attention_counts.py --batch 12 --heads 4 --length 64 --channels 32

For the kernels of one row (shaders/attention_*.wgsl) and of tiles (flash_*.wgsl): operations,
bytes that workgroups read, and the floor in milliseconds on GPUs of public figures. A floor is
the largest of three times: of the multiply-adds, of the bytes that must move from memory once,
and of what passes the pipe that serves a compute unit's loads, workgroup memory included. All
three GPUs are counted as units of 128 lanes whose pipe moves 128 bytes a cycle in sectors of 32,
which is public for NVIDIA and an assumption for the others.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

TILE = 64
STRIP = 16
LANES, SIMD = 128, 32
SCATTERED = 8
"""Pipe cycles of a load whose 32 threads meet 32 lines, a sector each: 32 * 32 / 128."""


@dataclass(frozen=True)
class Gpu:
    name: str
    units: int  # of 128 lanes
    ghz: float
    gb_s: float


GPUS = [
    Gpu("NVIDIA RTX 4090", 128, 2.52, 1008),  # 82.6 TFLOP/s
    Gpu("Apple M2, 10 cores", 10, 1.40, 100),  # 3.6 TFLOP/s
    Gpu("Intel Iris Xe, 96 units", 6, 1.35, 68),  # 2.1 TFLOP/s
]


@dataclass(frozen=True)
class Sizes:
    batch: int
    heads: int
    length: int
    channels: int

    @property
    def row_pairs(self) -> int:
        """(query, key), causal."""
        return self.batch * self.heads * self.length * (self.length + 1) // 2

    @property
    def tile_pairs(self) -> int:
        tiles = -(-self.length // TILE)
        return self.batch * self.heads * tiles * (tiles + 1) // 2


@dataclass(frozen=True)
class Kernel:
    """Per (query, key) and channel: products, and tensors whose elements are read for them."""

    along_channels: int  # products that sum over channels: scores, dP
    over_rows: int  # products that sum over rows: out, dq, dk, dv
    tensors: int  # read and written once at least, [batch, length, C]


KERNELS = {"forward": Kernel(1, 1, 4), "dq": Kernel(2, 1, 5), "dkv": Kernel(2, 2, 6)}


@dataclass(frozen=True)
class Work:
    operations: float
    read: float
    """Bytes that workgroups read from beyond themselves."""
    pipe: float
    """Cycles of one unit's load pipe."""
    moved: float
    """Bytes that must move from and to memory once."""

    def floor_ms(self, gpu: Gpu) -> float:
        cycles = max(self.operations / (2 * LANES), self.pipe) / (gpu.units * gpu.ghz * 1e9)
        return 1e3 * max(cycles, self.moved / (gpu.gb_s * 1e9))


def _moved(kernel: Kernel, s: Sizes) -> float:
    return 4.0 * kernel.tensors * s.batch * s.length * s.heads * s.channels


def by_row(kernel: Kernel, s: Sizes) -> Work:
    """A thread reads a key's channels one after the other (scattered), then 64 threads a row's.

    Each product has a number from workgroup memory beside the one from a tensor.
    """
    products = kernel.along_channels + kernel.over_rows
    each = s.row_pairs * s.channels
    scattered, straight = kernel.along_channels * (SCATTERED + 1), kernel.over_rows * 2
    pipe = each * (scattered + straight) / SIMD
    return Work(2.0 * products * each, 4.0 * products * each, pipe, _moved(kernel, s))


def by_tile(kernel: Kernel, s: Sizes) -> Work:
    """flash.wgsl: both sides of a product along channels are read, one of a product over rows.

    Products over rows go by 32 channels. Four rows by four columns take two vec4 of workgroup
    memory: 32 threads read 2 and 16 different ones, 3 cycles for 512 multiply-adds.
    """
    wide = -(-s.channels // 32) * 32
    each = TILE * TILE * (kernel.along_channels * s.channels + kernel.over_rows * wide)
    read = TILE * s.channels * (2 * kernel.along_channels + kernel.over_rows)
    weights = kernel.over_rows * TILE * TILE * -(-s.channels // 64)
    pipe = 3 * each / 512 + (2 * read + weights) / SIMD  # read and put into workgroup memory
    n = s.tile_pairs
    return Work(2.0 * n * each, 4.0 * n * read, n * pipe, _moved(kernel, s))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count attention's work on a GPU.")
    for name, default in (("batch", 64), ("heads", 6), ("length", 256), ("channels", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    s = Sizes(**vars(parser.parse_args()))
    print(f"{s}\n\n| kernel | GFLOP | GB read | {' | '.join(gpu.name for gpu in GPUS)} |")
    print("| --- | ---: | ---: | " + " | ".join("---:" for _ in GPUS) + " |")
    sums = {way: [0.0] * len(GPUS) for way in (by_row, by_tile)}
    for name, kernel in KERNELS.items():
        for way in (by_row, by_tile):
            work = way(kernel, s)
            floors = [work.floor_ms(gpu) for gpu in GPUS]
            sums[way] = [a + b for a, b in zip(sums[way], floors, strict=True)]
            cells = " | ".join(f"{floor:.3f} ms" for floor in floors)
            print(f"| {name} {way.__name__} | {work.operations / 1e9:.2f} "
                  f"| {work.read / 1e9:.3f} | {cells} |")  # fmt: skip
    ratios = [a / b for a, b in zip(*sums.values(), strict=True)]
    print(f"| all, by tile is faster | | | {' | '.join(f'{r:.1f}x' for r in ratios)} |")


if __name__ == "__main__":
    main()
