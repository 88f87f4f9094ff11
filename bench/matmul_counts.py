"""What a product asks of a GPU by each kernel of shaders/matmul_*.wgsl, counted; no GPU takes part.

    python bench/matmul_counts.py                        2048 cubed
    python bench/matmul_counts.py --m 768 --n 128 --k 128
    python bench/matmul_counts.py --m 128 --n 128 --k 768 --parts 8       with K in parts

A floor is the largest of three times, as in attention_counts.py: of the multiply-adds (and of
f16's conversions, a lane's cycle each), of the bytes that must move from memory once, and of
what passes the pipe of each compute unit: loads, stores, workgroup memory, shuffles. Tiles go to
units in turns, and a turn lasts as long where only one unit has one. NN; 32 threads at a time.
Loads by matmul_naive are counted as if a cache had all of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from attention_counts import GPUS, LANES, SIMD, Gpu

WORD, VECTOR = 1, 4
"""Pipe cycles of 32 threads that move a word each, or 16 bytes each, to different addresses."""
PAIR_VECTOR = 2
"""The same of 16 bytes at 16 different addresses, or of 8 bytes at 32."""


@dataclass(frozen=True)
class Kernel:
    """A step of `depth` of K on a `side` squared tile by 256 threads, counted for 32 of them."""

    side: int
    depth: int
    to_tile: float
    """Pipe cycles of bringing a step's values to registers and from there to workgroup memory."""
    to_threads: float
    """Pipe cycles of a step's reads by threads, shuffles included."""
    conversions: int = 0
    """A thread's in a step."""
    splits: bool = False
    packs: bool = False

    def cycles(self, m: int, n: int, k: int) -> tuple[float, float]:
        """(of the lanes, of the pipe) of one unit for one tile and all of K."""
        warps = 256 // SIMD
        steps = -(-k // self.depth)
        products = self.side * self.side * self.depth / 256 + self.conversions
        lanes = steps * products * 256 / LANES
        return lanes, steps * warps * (self.to_tile + self.to_threads)


KERNELS = {
    "naive": Kernel(16, 16, 0, 16 * 2 * WORD),
    "tiled": Kernel(16, 16, 4 * WORD, 16 * 2 * WORD),
    "blocked4": Kernel(64, 16, 16 * WORD, 16 * 8 * WORD, splits=True),
    "vec4": Kernel(64, 16, 4 * VECTOR, 4 * (4 * WORD + 4 * PAIR_VECTOR), splits=True),
    "subgroup": Kernel(64, 16, 16 * WORD, 4 * (20 + 16) * WORD, splits=True),
    "f16": Kernel(64, 16, 2 * VECTOR + 2 * PAIR_VECTOR, 4 * 8 * WORD, conversions=136),
    "blocked8": Kernel(128, 8, 16 * WORD, 8 * 16 * WORD),
    "tiled_f16": Kernel(16, 16, 4 * WORD, 16 * 2 * WORD, conversions=34),
    "f16_packed": Kernel(16, 16, 4 * WORD, 16 * 2 * WORD, conversions=2, packs=True),
}
"""Threads of one row of results read the same of A, so a word's time; a vector of B goes to two
rows of threads at once. blocked8's tile has 16 results more a read, and 8 of K a step."""


@dataclass(frozen=True)
class Sizes:
    m: int
    n: int
    k: int
    parts: int

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.n * self.k


def bytes_read(kernel: Kernel, s: Sizes) -> float:
    """What workgroups read of A and B from beyond themselves."""
    return 4.0 * s.m * s.n * s.k * 2 / kernel.side * (0.5 if kernel.packs else 1)


def floor_ms(kernel: Kernel, s: Sizes, gpu: Gpu) -> float:
    parts = s.parts if kernel.splits else 1
    tiles = -(-s.m // kernel.side) * -(-s.n // kernel.side) * parts
    lanes, pipe = kernel.cycles(s.m, s.n, -(-s.k // parts))
    turns = -(-tiles // gpu.units)
    busy = turns * max(lanes, pipe) / (gpu.ghz * 1e9)
    moved = 4.0 * (s.m * s.k + s.k * s.n + s.m * s.n)
    if parts > 1:
        moved += 4.0 * 2 * parts * s.m * s.n
    if kernel.packs:
        moved += 4.0 * (s.m * s.k + s.k * s.n)
    return 1e3 * max(busy, moved / (gpu.gb_s * 1e9))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count a product's work on a GPU.")
    for name, default in (("m", 2048), ("n", 2048), ("k", 2048), ("parts", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    s = Sizes(**vars(parser.parse_args()))
    print(f"{s}, {s.operations / 1e9:.3f} GFLOP\n")
    print(f"| kernel | GB read | {' | '.join(f'{gpu.name} | of its peak' for gpu in GPUS)} |")
    print("| --- | ---: |" + " ---: |" * 2 * len(GPUS))
    for name, kernel in KERNELS.items():
        cells = []
        for gpu in GPUS:
            ms = floor_ms(kernel, s, gpu)
            peak = 2e9 * LANES * gpu.units * gpu.ghz
            cells.append(f"{ms:.4f} ms | {s.operations / (ms / 1e3) / peak:.0%}")
        print(f"| {name} | {bytes_read(kernel, s) / 1e9:.3f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
