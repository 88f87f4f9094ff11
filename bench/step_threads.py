"""A whole training step on two threads against one: python bench/step_threads.py

The preset large on the native core and in a Chromium tab. Two sessions of one
build, the same weights and batches; their losses must be equal to the last bit.
"""

from __future__ import annotations

import command
import numpy as np
import pairs
from tab_session import TabSession, open_tab
from tabgpt.backends.native import NativeSession

PRESET = "large"
BUILD = "relaxed-threads"
VOCAB = 65  # TinyShakespeare by characters
TOKENS = np.random.default_rng(7).integers(VOCAB, size=100_000).astype(np.uint32)
CHECKED_STEPS = 3


def measure(effort: command.Effort) -> command.Outcome:
    recipe = effort.recipe(PRESET)
    model = recipe.model(VOCAB)

    def native(threads: int) -> tuple[pairs.Side, list[float]]:
        session = NativeSession(model, recipe.train, TOKENS, mode="train", threads=threads)
        session.init_weights()
        losses = [session.step().loss for _ in range(CHECKED_STEPS)]
        return pairs.Side(session.step), losses

    print(f"where, a step of {PRESET}: speed 2 threads / 1 (quartiles), ms a step of each")
    results = []
    with open_tab() as page:

        def tab(threads: int) -> tuple[pairs.Side, list[float]]:
            session = TabSession(page, BUILD, threads, recipe, VOCAB, TOKENS)
            return session.step_side(), session.losses(CHECKED_STEPS)

        for where, build, start in (("native", "native", native), ("tab", BUILD, tab)):
            (two, mine), (one, theirs) = start(2), start(1)
            taken = pairs.take_rounds([two, one], rounds=effort.rounds, sample_s=effort.sample_s)
            row = {
                "where": where,
                "build": build,
                "preset": PRESET,
                "equal_losses": mine == theirs and np.isfinite(mine).all().item(),
                **pairs.samples(two, one),
                **taken,
            }
            results.append(row)
            ms = [1e3 * float(np.median(side.seconds)) for side in (two, one)]
            print(f"{where:7s} {command.shown(row['ratio'])}  {ms[0]:.1f} {ms[1]:.1f}", flush=True)
        browser = page.browser
    equal = all(row["equal_losses"] for row in results)
    why = (
        f"the first {CHECKED_STEPS} losses on one thread and on two "
        f"{'are equal bit for bit' if equal else 'differ'}"
    )
    return command.Outcome(results, equal, why, {"browser": browser})


if __name__ == "__main__":
    command.run("step-threads", __doc__, command.Effort(rounds=11), measure)
