"""All kernel cases and all settings of a step, on the GPU inside a tab of Chromium.

`python tests/chromium_gpu.py`, after `make site chromium`; some minutes. A part of it is in the
suite (tests/browser/test_gpu_parity.py). Every error is given as a share of its bound.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict

import gpu_tab
import one_step
import trajectory
from gpu_cases import GPU_CASES
from gpu_tab import GpuTab
from kernel_parity import assert_within_bounds
from one_step import GPU, SETTINGS
from trajectory import GPU_BOUND, MODEL, TRAIN


def kernels(tab: GpuTab) -> list[str]:
    """What is wrong; prints the largest error of each operation."""
    worst: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, ""))
    wrong = []
    for case in GPU_CASES:

        def note(name: str, share: float, where: str, op: str = case.op) -> None:
            worst[op] = max(worst[op], (share, where))

        try:
            assert_within_bounds(tab, case, note)
        except AssertionError as error:
            wrong.append(str(error))
    for share, where in worst.values():
        print(f"{share:.3f}  {where}", flush=True)
    return wrong


def steps(tab: GpuTab) -> list[str]:
    wrong = []
    for name, wanted in SETTINGS.items():
        worst = (0.0, "")

        def note(share: float, tensor: str) -> None:
            nonlocal worst
            worst = max(worst, (share, tensor))

        session = tab.open(wanted.model, wanted.train, wanted.corpus(), "probe")
        got = one_step.drive(session, wanted)
        session.close()
        wrong += one_step.differences(got, one_step.oracle(name), GPU, note)
        print(f"{worst[0]:.3f}  a step, {worst[1]} ({name})", flush=True)
    return wrong


def fifty_steps(tab: GpuTab) -> list[str]:
    session = tab.open(MODEL, TRAIN, trajectory.tokens())
    distance = trajectory.run(session).distance(trajectory.oracle())
    session.close()
    print(f"{distance / GPU_BOUND:.3f}  50 steps, largest difference {distance:.1e}", flush=True)
    return [] if distance <= GPU_BOUND else [f"50 steps: {distance}, allowed {GPU_BOUND}"]


def main() -> None:
    begun = time.monotonic()
    with gpu_tab.open_tab() as tab:
        print(f"{tab('about')}: {len(GPU_CASES)} kernel cases, {len(SETTINGS)} steps")
        print("largest error as a share of its bound")
        wrong = kernels(tab) + steps(tab) + fifty_steps(tab)
    print("\n".join(wrong) or f"all within their bounds, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
