"""Windows: where they start, that they fit, and that evaluation sees each target once."""

from __future__ import annotations

import numpy as np
import pytest
from tabgpt import batches, philox
from tabgpt.errors import CorpusError

IDS = np.arange(1000)  # a token's id is its position


def test_the_last_tenth_validates() -> None:
    train, val = batches.split(IDS[:999], 10)
    assert (len(train), len(val)) == (900, 99)
    assert np.concatenate([train, val]).tolist() == IDS[:999].tolist()


@pytest.mark.parametrize(("n", "ctx"), [(0, 4), (19, 4), (20, 18)])
def test_a_short_corpus_is_refused_with_both_lengths(n: int, ctx: int) -> None:
    n_val = n // 10
    with pytest.raises(CorpusError, match=rf"{n} tokens: {n - n_val} to train on and {n_val} to"):
        batches.split(IDS[:n], ctx)
    batches.split(IDS[:20], 17)  # the shortest that works


def test_starts_are_the_streams_words_scaled_to_the_split() -> None:
    part = IDS[:900]
    tokens, targets = batches.training_batch(part, 10, 6, seed=5, step=7, micro=3)
    words = philox.bits(5, 6, 7, 2 << 24 | 3 << 16)
    assert tokens[:, 0].tolist() == [(int(word) * 890) >> 32 for word in words]
    assert tokens.shape == targets.shape == (6, 10)
    np.testing.assert_array_equal(tokens, tokens[:, :1] + np.arange(10))
    np.testing.assert_array_equal(targets, tokens + 1)


def test_every_start_occurs_and_none_leaves_the_split() -> None:
    tokens, targets = batches.training_batch(IDS[:14], 10, 2000, seed=1, step=0)
    assert set(tokens[:, 0]) == {0, 1, 2, 3}
    assert targets.max() == 13
    alone, _ = batches.training_batch(IDS[:11], 10, 3, seed=1, step=0)
    assert (alone[:, 0] == 0).all()


def test_batches_depend_on_seed_step_and_micro_only() -> None:
    def starts(**where: int) -> tuple:
        tokens, _ = batches.training_batch(IDS, 8, 5, **({"seed": 1, "step": 0} | where))
        return tuple(tokens[:, 0])

    assert starts() == starts()
    assert len({starts(), starts(seed=2), starts(step=1), starts(micro=1)}) == 4


@pytest.mark.parametrize("n", [2, 3, 7, 8, 9, 10, 16, 17, 50, 57, 58, 59])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_whole_split_evaluation_covers_each_target_once(n: int, batch_size: int) -> None:
    part, ctx = IDS[:n], 8
    seen: list[int] = []
    lengths = []
    for tokens, targets in batches.evaluation_batches(part, ctx, batch_size, seed=1):
        np.testing.assert_array_equal(targets, tokens + 1)
        assert (tokens[:, 0] % ctx == 0).all()
        assert len(tokens) <= batch_size
        lengths.append(tokens.shape[1])
        seen += targets.reshape(-1).tolist()
    assert seen == list(range(1, n))
    assert all(length == ctx for length in lengths[:-1])


def test_seeded_evaluation_draws_from_its_own_streams() -> None:
    drawn = list(batches.evaluation_batches(IDS, 8, 4, seed=3, n_batches=2))
    for j, (tokens, targets) in enumerate(drawn):
        words = philox.bits(3, 4, j, 5 << 24)
        assert tokens[:, 0].tolist() == [(int(word) * 992) >> 32 for word in words]
        np.testing.assert_array_equal(targets, tokens + 1)
    assert len(drawn) == 2


@pytest.mark.parametrize(("n", "seeded"), [(9, True), (8, False)])
def test_seeded_evaluation_of_a_split_without_a_window_is_the_whole(n: int, seeded: bool) -> None:
    drawn = list(batches.evaluation_batches(IDS[:n], 8, 2, seed=3, n_batches=3))
    assert len(drawn) == (3 if seeded else 1)
