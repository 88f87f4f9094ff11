"""Training step time per parameter and token, from tiny to xl: python bench/step_sizes.py

The presets at their own batch, on the native core and in a Chromium tab, two
threads each. A core that has no fixed cost and no cliff shows the same figure
at every size. All sizes take turns; `per` is the median of their samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import command
import numpy as np
import pairs
from tab_session import TabSession, open_tab
from tabgpt.backends.native import NativeSession

PRESETS = ("tiny", "small", "medium", "large", "xl")
BUILD = "relaxed-threads"
VOCAB = 65  # TinyShakespeare by characters
TOKENS = np.random.default_rng(7).integers(VOCAB, size=100_000).astype(np.uint32)
THREADS = 2
CHECKED_STEPS = 3
LOSS_BOUND = 1e-5
"""Relative, of the first losses in the tab against the native core's."""


def work(recipe: Any, parameters: int) -> int:
    """Parameters times tokens of a step."""
    train = recipe.train
    return parameters * train.batch_size * train.grad_accum * recipe.model(VOCAB).ctx


def spread(per: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The slowest size against the fastest, by their medians: pair ratios over the rounds.

    per holds each size's time per parameter and token in every round.
    """
    fastest, *_, slowest = sorted(per, key=lambda name: float(np.median(per[name])))
    ratio = pairs.ratio(per[fastest], per[slowest])
    return {"slowest": slowest, "fastest": fastest, "ratio": ratio}


def measure(effort: command.Effort) -> command.Outcome:
    recipes = {name: effort.recipe(name) for name in PRESETS}
    results: list[dict[str, Any]] = []
    losses: dict[tuple[str, str], list[float]] = {}
    with open_tab() as page:

        def start(where: str, name: str) -> tuple[pairs.Side, int]:
            recipe = recipes[name]
            session: NativeSession | TabSession
            if where == "native":
                model = recipe.model(VOCAB)
                session = NativeSession(model, recipe.train, TOKENS, mode="train", threads=THREADS)
                session.init_weights()
                losses[where, name] = [session.step().loss for _ in range(CHECKED_STEPS)]
                parameters = sum(
                    session.tensor(tensor).size
                    for tensor in session.names()
                    if tensor.startswith("transformer.")
                )
                return pairs.Side(session.step), parameters
            session = TabSession(page, BUILD, THREADS, recipe, VOCAB, TOKENS)
            losses[where, name] = session.losses(CHECKED_STEPS)
            return session.step_side(), session.parameters

        print("where, preset: ms a step, ps per parameter and token")
        for where in ("native", "tab"):
            started = {name: start(where, name) for name in PRESETS}
            sides = [side for side, _ in started.values()]
            works = [work(recipes[name], n) for name, (_, n) in started.items()]
            taken = pairs.take_rounds(sides, rounds=effort.rounds, sample_s=effort.sample_s)
            for (name, (side, parameters)), amount in zip(started.items(), works, strict=True):
                row = {
                    "where": where,
                    "preset": name,
                    "parameters": parameters,
                    "tokens": amount // parameters,
                    "seconds": side.seconds,
                    "calls": side.calls,
                    "per": float(np.median(side.seconds)) / amount,
                    **taken,
                }
                results.append(row)
                ms = 1e3 * float(np.median(side.seconds))
                print(f"{where:7s} {name:7s} {ms:8.2f} {1e12 * row['per']:6.1f}", flush=True)
            per = {
                name: [seconds / amount for seconds in side.seconds]
                for name, side, amount in zip(started, sides, works, strict=True)
            }
            between = spread(per)
            results.append({"where": where, **between})
            print(
                f"{where:7s} {between['slowest']} / {between['fastest']}:"
                f" {command.shown(between['ratio'])}",
                flush=True,
            )
        browser = page.browser
    worst = command.worst(command.relative(losses["tab", n], losses["native", n]) for n in PRESETS)
    why = (
        f"the first {CHECKED_STEPS} losses in the tab differ from the native core's by at most "
        f"{worst:.1e} (bound {LOSS_BOUND:g}), relative"
    )
    return command.Outcome(results, worst <= LOSS_BOUND, why, {"browser": browser})


if __name__ == "__main__":
    command.run("step-sizes", __doc__, command.Effort(rounds=9), measure)
