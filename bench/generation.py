"""Generating a token late in the context against early: python bench/generation.py

The preset nanogpt-baby in mode infer, two threads, native and in a Chromium tab.
A sample feeds 9 tokens after a prompt of 6 (positions 6 to 14, 10 on average) or
of 246 (250 on average); taking in the prompt is not timed. With a KV cache the
late token costs its own attention more, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import command
import numpy as np
import pairs
from tab_session import SETTLE_S, TabSession, open_tab
from tabgpt.backends.native import NativeSession

PRESET = "nanogpt-baby"
BUILD = "relaxed-threads"
VOCAB = 65  # TinyShakespeare by characters
THREADS = 2
EARLY = 10
GROUP = 9
BOUND = 1e-5
"""How far below the best logit a greedy token's may lie, as a share of the largest."""

Generate = Callable[[Sequence[int], int], tuple[float, list[int]]]
"""(prompt, count) -> (seconds of count tokens after the first, ids with the first)."""


def prompt(position: int) -> list[int]:
    """Random ids, after which GROUP tokens are fed at this position on average."""
    ids = np.random.default_rng(7).integers(VOCAB, size=position - GROUP // 2)
    return [int(token) for token in ids]


class TokensSide(pairs.Side):
    """A call is GROUP tokens after a prompt, which wakes the threads; only they are timed."""

    def __init__(self, generate: Generate, position: int) -> None:
        super().__init__(call=self._group)
        self._generate = generate
        self._prompt = prompt(position)

    def _group(self) -> float:
        return self._generate(self._prompt, GROUP)[0]

    def timed(self, calls: int, wake: bool = False) -> float:
        time.sleep(SETTLE_S)
        return sum(self._group() for _ in range(calls))


def native_generate(session: NativeSession) -> Generate:
    def generate(ids: Sequence[int], count: int) -> tuple[float, list[int]]:
        tokens = session.generate(ids, temperature=0.0)
        made = [next(tokens)]
        before = time.perf_counter()
        made += [next(tokens) for _ in range(count)]
        return time.perf_counter() - before, made

    return generate


def shortfall(
    generate: Generate, logits: Callable[[list[int]], np.ndarray], position: int
) -> float:
    """How far the chosen tokens' logits lie below the best of a forward pass without a cache.

    As a share of the largest logit; 0 where each token is the best one.
    """
    start = prompt(position)
    ids = start + generate(start, GROUP)[1]
    rows = logits(ids[:-1])[len(start) - 1 :]
    chosen = rows[np.arange(len(rows)), ids[len(start) :]]
    return float(np.max((rows.max(axis=1) - chosen) / np.abs(rows).max()))


def measure(effort: command.Effort) -> command.Outcome:
    recipe = effort.recipe(PRESET)
    early, late = EARLY, recipe.model(VOCAB).ctx - 6  # 250 of 256; the last group ends inside
    native = NativeSession(recipe.model(VOCAB), recipe.train, mode="infer", threads=THREADS)
    native.init_weights()

    def native_logits(ids: list[int]) -> np.ndarray:
        return np.array(native.logits(np.array([ids]))[0], float)

    print(f"where: time at position {late} / {early} (quartiles), ms a token at each")
    results: list[dict[str, Any]] = []
    with open_tab() as page:
        session = TabSession(page, BUILD, THREADS, recipe, VOCAB)
        for where, generate, logits in (
            ("native", native_generate(native), native_logits),
            ("tab", session.generate, session.logits),
        ):
            worst = command.worst(shortfall(generate, logits, p) for p in (early, late))
            sides = [TokensSide(generate, position) for position in (early, late)]
            taken = pairs.take_rounds(sides, rounds=effort.rounds, sample_s=effort.sample_s)
            row = {
                "where": where,
                "preset": PRESET,
                "threads": THREADS,
                "positions": [early, late],
                "tokens_a_call": GROUP,
                "shortfall": worst,
                **pairs.samples(*sides),
                **taken,
            }
            results.append(row)
            ms = [1e3 * float(np.median(side.seconds)) / GROUP for side in sides]
            print(f"{where:7s} {command.shown(row['ratio'])}  {ms[1]:.2f} {ms[0]:.2f}", flush=True)
        browser = page.browser
    worst = command.worst(row["shortfall"] for row in results)
    why = (
        f"each generated token is the best one of a forward pass without a cache, to {worst:.1e} "
        f"of the largest logit (bound {BOUND:g})"
    )
    return command.Outcome(results, worst <= BOUND, why, {"browser": browser})


if __name__ == "__main__":
    command.run("generation", __doc__, command.Effort(rounds=15), measure)
