"""Attention over 4096 positions, in every way that the model uses, under both shader compilers.

`python tests/long_attention.py`, after `make vulkan`; some minutes and about 2 GB, for the oracle
holds [T,T]. The suite ends at 1024 positions.
"""

from __future__ import annotations

import sys
import time

from case import Case
from case_attention import AttentionBackward, AttentionForward
from kernel_parity import assert_within_bounds
from kernel_runner import COMPILERS, Kernels

T = 4096
CASES: list[Case] = [
    kind(1, T, 1, channels, p)
    for channels, p in ((8, 0.1), (64, 0.1), (128, 0.0))
    for kind in (AttentionForward, AttentionBackward)
]


def main() -> None:
    failed = False
    for compiler in COMPILERS:
        kernels = Kernels(compiler)
        for case in CASES:
            begun = time.monotonic()
            shares: list[tuple[float, str]] = []
            try:
                assert_within_bounds(
                    kernels, case, lambda name, share, where, to=shares: to.append((share, where))
                )
                print(f"{compiler}: {time.monotonic() - begun:.0f} s, largest shares of the bound")
            except AssertionError as error:
                failed = True
                print(f"{compiler}: {error}")
            for share, where in shares:
                print(f"  {share:.3f}  {where}", flush=True)
        kernels.stop()
    sys.exit(failed)


if __name__ == "__main__":
    main()
