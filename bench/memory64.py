"""64-bit memory against 32-bit in a Chromium tab: python bench/memory64.py

The training step of one small model on the builds of both widths, two threads each,
in turns. A third side is the 64-bit build in a Chromium that leaves out bounds checks
(a switch of V8's, for this measurement only), which tells what these cost: a 32-bit
memory needs none, as it lies alone in the 4 GiB that a 32-bit address can reach.
"""

from __future__ import annotations

from contextlib import ExitStack

import command
import numpy as np
import pairs
from tab_session import TabSession, open_tab

PRESET = "nanogpt-cpu"
KERNELS = ("relaxed", "simd")
THREADS = 2
VOCAB = 65  # TinyShakespeare by characters
TOKENS = np.random.default_rng(7).integers(VOCAB, size=100_000).astype(np.uint32)
CHECKED_STEPS = 3
UNCHECKED = "--js-flags=--no-wasm-bounds-checks"


def measure(effort: command.Effort) -> command.Outcome:
    recipe = effort.recipe(PRESET)
    results = []
    print(f"a step of {PRESET}: speed 64-bit / 32-bit (quartiles), ms a step of each")
    with ExitStack() as open_pages:
        page = open_pages.enter_context(open_tab())
        unchecked = open_pages.enter_context(open_tab(UNCHECKED))
        for kernels in KERNELS:
            builds = {bits: f"{kernels}-threads" + "-64" * (bits == 64) for bits in (32, 64)}
            sessions = {
                "32": TabSession(page, builds[32], THREADS, recipe, VOCAB, TOKENS),
                "64": TabSession(page, builds[64], THREADS, recipe, VOCAB, TOKENS),
                "64 unchecked": TabSession(unchecked, builds[64], THREADS, recipe, VOCAB, TOKENS),
            }
            losses = {name: session.losses(CHECKED_STEPS) for name, session in sessions.items()}
            sides = {name: session.step_side() for name, session in sessions.items()}
            taken = pairs.take_rounds(
                list(sides.values()), rounds=effort.rounds, sample_s=effort.sample_s
            )
            for name in ("64", "64 unchecked"):
                row = {
                    "preset": PRESET,
                    "kernels": kernels,
                    "bounds_checks": name == "64",
                    "threads": THREADS,
                    "equal_losses": losses[name] == losses["32"],
                    **pairs.samples(sides[name], sides["32"]),
                    **taken,
                }
                results.append(row)
                ms = [1e3 * float(np.median(row[f"{side}_s"])) for side in ("ours", "peer")]
                shown = command.shown(row["ratio"])
                print(f"{kernels:8s} {name:12s} {shown}  {ms[0]:.1f} {ms[1]:.1f}", flush=True)
            for session in sessions.values():
                session.close()
        browser = page.browser
    equal = all(row["equal_losses"] for row in results)
    why = (
        f"the first {CHECKED_STEPS} losses of both widths "
        f"{'are equal bit for bit' if equal else 'differ'}"
    )
    return command.Outcome(results, equal, why, {"browser": browser})


if __name__ == "__main__":
    command.run("memory64", __doc__, command.Effort(rounds=15), measure)
