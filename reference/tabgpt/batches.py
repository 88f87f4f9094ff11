"""Which windows of the corpus a step or an evaluation sees: the same on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from . import philox
from .config import VALIDATION_DIVISOR
from .errors import CorpusError

Ids = NDArray[np.integer]
Batch = tuple[Ids, Ids]
"""tokens [B,T] and targets [B,T]: the targets are the tokens one further."""


def split(tokens: Ids, ctx: int) -> tuple[Ids, Ids]:
    """Training and validation part; the last tenth validates.

    CorpusError when a training window of ctx tokens and its target do not fit, or
    validation has no target.
    """
    n_val = len(tokens) // VALIDATION_DIVISOR
    n_train = len(tokens) - n_val
    if n_train < ctx + 1 or n_val < 2:
        raise CorpusError(
            f"the corpus has {len(tokens)} tokens: {n_train} to train on and {n_val} to validate; "
            f"a context of {ctx} needs at least {ctx + 1} and 2. Use a longer text or a smaller ctx"
        )
    return tokens[:n_train], tokens[n_train:]


def _windows(part: Ids, starts: NDArray[np.int64], length: int) -> Batch:
    index = starts[:, None] + np.arange(length)  # [B,T]
    return part[index], part[index + 1]


def _random(part: Ids, ctx: int, batch_size: int, seed: int, c2: int, c3: int) -> Batch:
    """Windows at random starts; row b takes element b of the stream."""
    n_starts = len(part) - ctx  # so that the last target is inside
    words = philox.bits(seed, batch_size, c2, c3).astype(np.uint64)
    starts = (words * np.uint64(n_starts)) >> np.uint64(32)
    return _windows(part, starts.astype(np.int64), ctx)


def training_batch(
    part: Ids, ctx: int, batch_size: int, seed: int, step: int, micro: int = 0
) -> Batch:
    """The windows of a micro-batch [B,T]: a function of (seed, step, micro) alone."""
    return _random(part, ctx, batch_size, seed, step, philox.stream(philox.BATCH, micro))


def evaluation_batches(
    part: Ids, ctx: int, batch_size: int, seed: int, n_batches: int = 0
) -> Iterator[Batch]:
    """All of a split (n_batches 0, or a split too short to draw from), or n_batches seeded ones.

    The whole split is cut into windows of ctx tokens, batch_size a batch, and a
    shorter last window alone: every token but the first is a target exactly once.
    """
    if n_batches and len(part) > ctx:
        for j in range(n_batches):
            yield _random(part, ctx, batch_size, seed, j, philox.stream(philox.EVALUATION))
        return
    n_full, rest = divmod(len(part) - 1, ctx)
    for first in range(0, n_full, batch_size):
        starts = np.arange(first, min(first + batch_size, n_full)) * ctx
        yield _windows(part, starts, ctx)
    if rest:
        yield _windows(part, np.array([n_full * ctx]), rest)
