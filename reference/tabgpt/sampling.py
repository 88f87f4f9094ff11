"""Choosing the next token, and writing on within a bounded context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from . import philox
from .errors import BackendError, NonFiniteError

Logits = NDArray[np.float64]


def choose(logits: Logits, temperature: float, top_k: int, top_p: float, u: float) -> int:
    """A token id from logits [V]; u in [0, 1) decides.

    temperature 0 takes the likeliest, the lowest id of equals. Else the ids stand in
    order (likelier first, then lower id), the first top_k stay (0: all), and of those
    the shortest run whose probabilities reach top_p (Holtzman et al. 2020, section 3.1).
    """
    if not np.isfinite(logits).all():
        raise NonFiniteError(
            "the logits are not finite, so no token can be chosen: the weights are damaged; "
            "load an earlier checkpoint"
        )
    if temperature == 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")[: top_k or None]
    with np.errstate(over="ignore"):  # however small the temperature: exp(-inf) is 0
        weights = np.exp((logits[order] - logits[order[0]]) / temperature)
    cumulative = np.cumsum(weights / weights.sum())
    n_kept = min(int(np.searchsorted(cumulative, top_p, side="left")) + 1, len(order))
    chosen = np.searchsorted(cumulative[:n_kept], u * cumulative[n_kept - 1], side="right")
    return int(order[min(int(chosen), n_kept - 1)])


def uniform_at(seed: int, position: int) -> float:
    """The number that decides the token at this index of the whole sequence."""
    return float(philox.uniform(seed, 1, position, philox.stream(philox.SAMPLING))[0])


def generate(
    next_logits: Callable[[list[int]], Logits],
    ctx: int,
    prompt: Sequence[int],
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
) -> Iterator[int]:
    """New ids without end; next_logits maps a window of at most ctx ids to logits [V].

    The window starts as the prompt's last ctx ids. Positions are absolute, so a full
    window cannot slide: it drops its oldest quarter and the rest starts at 0 anew.
    """
    if len(prompt) == 0:
        raise BackendError("the prompt is empty; give at least one token")
    window = list(prompt[-ctx:])
    position = len(prompt)
    while True:
        token = choose(next_logits(window), temperature, top_k, top_p, uniform_at(seed, position))
        yield token
        position += 1
        if len(window) == ctx:
            window = window[max(1, ctx // 4) :]
        window.append(token)
