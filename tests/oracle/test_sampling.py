"""The choice of a token, and what the model sees when the context is full."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from tabgpt import philox, sampling
from tabgpt.errors import BackendError, NonFiniteError

LOG = np.log


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    assert sampling.choose(np.array([0.0, 3.0, 3.0, 1.0]), 0, 0, 1.0, 0.99) == 1
    assert sampling.choose(np.array([0.0, 3.0, 3.0, 1.0]), 0, 1, 0.1, 0.99) == 1


@pytest.mark.parametrize(
    ("u", "token"),
    [(0.0, 2), (0.499, 2), (0.501, 0), (0.799, 0), (0.801, 1), (1 - 2.0**-24, 1)],
)
def test_u_falls_into_the_intervals_of_the_sorted_probabilities(u: float, token: int) -> None:
    logits = LOG([0.3, 0.2, 0.5])
    assert sampling.choose(logits, 1.0, 0, 1.0, u) == token


def test_a_boundary_belongs_to_the_next_token() -> None:
    """Equal logits: intervals [0, 1/2) and [1/2, 1), in the order of the ids."""
    logits = np.array([1.0, 1.0])
    assert sampling.choose(logits, 1.0, 0, 1.0, 0.5 - 2.0**-24) == 0
    assert sampling.choose(logits, 1.0, 0, 1.0, 0.5) == 1


def test_temperature_divides_the_logits() -> None:
    logits = LOG([0.6, 0.4])
    # At temperature 1/2 the probabilities are .36 and .16 over their sum: 0.692.
    assert sampling.choose(logits, 0.5, 0, 1.0, 0.69) == 0
    assert sampling.choose(logits, 0.5, 0, 1.0, 0.70) == 1
    assert sampling.choose(logits, 1.0, 0, 1.0, 0.61) == 1
    # At 2: sqrt(.6) / (sqrt(.6) + sqrt(.4)) = 0.5505.
    assert sampling.choose(logits, 2.0, 0, 1.0, 0.56) == 1
    assert sampling.choose(logits, 2.0, 0, 1.0, 0.54) == 0


@pytest.mark.parametrize("temperature", [1e-300, 5e-324])
@pytest.mark.filterwarnings("error")
def test_the_smallest_temperatures_take_the_likeliest(temperature: float) -> None:
    logits = np.array([-3.0, 4.0, 3.9, 1.0])
    assert sampling.choose(logits, temperature, 0, 1.0, 0.999) == 1


def tokens_reachable(logits: np.ndarray, top_k: int, top_p: float) -> list[int]:
    grid = (np.arange(2000) + 0.5) / 2000
    return sorted({sampling.choose(logits, 1.0, top_k, top_p, u) for u in grid})


def test_top_k_keeps_the_k_likeliest_and_0_and_more_than_v_keep_all() -> None:
    logits = LOG([0.1, 0.4, 0.2, 0.3])
    assert tokens_reachable(logits, 1, 1.0) == [1]
    assert tokens_reachable(logits, 3, 1.0) == [1, 2, 3]
    assert tokens_reachable(logits, 0, 1.0) == [0, 1, 2, 3]
    assert tokens_reachable(logits, 9, 1.0) == [0, 1, 2, 3]


def test_top_k_prefers_the_lower_of_equal_ids() -> None:
    assert tokens_reachable(np.zeros(4), 2, 1.0) == [0, 1]


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.01, [1]), (0.5, [1]), (0.5 + 1e-9, [1, 3]), (0.75, [1, 3]), (0.76, [0, 1, 3]), (1.0, 4)],
)
def test_top_p_keeps_the_shortest_run_that_reaches_it(top_p: float, kept: object) -> None:
    logits = LOG([0.125, 0.5, 0.125, 0.25])  # exact in binary: 0.5 and 0.75 are edges
    reachable = tokens_reachable(logits, 0, top_p)
    assert reachable == ([0, 1, 2, 3] if kept == 4 else kept)


def test_top_p_counts_the_probabilities_left_by_top_k() -> None:
    logits = LOG([0.4, 0.2, 0.2, 0.2])  # of the first two: 2/3 and 1/3
    assert tokens_reachable(logits, 2, 0.66) == [0]
    assert tokens_reachable(logits, 2, 0.67) == [0, 1]


def test_what_is_kept_is_scaled_to_1() -> None:
    logits = LOG([0.5, 0.25, 0.25])
    assert sampling.choose(logits, 1.0, 2, 1.0, 0.66) == 0  # below 2/3
    assert sampling.choose(logits, 1.0, 2, 1.0, 0.67) == 1
    assert sampling.choose(logits, 1.0, 0, 0.7, 0.66) == 0
    assert sampling.choose(logits, 1.0, 0, 0.7, 0.67) == 1


def test_shares_follow_the_probabilities() -> None:
    logits = LOG([0.6, 0.3, 0.1])
    u = philox.uniform(1, 20_000, 0, 0)
    drawn = np.bincount([sampling.choose(logits, 1.0, 0, 1.0, x) for x in u]) / u.size
    np.testing.assert_allclose(drawn, [0.6, 0.3, 0.1], atol=0.015)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="not finite"):
        sampling.choose(np.array([0.0, bad]), 1.0, 0, 1.0, 0.5)


class Recorder:
    """A model that likes token (last + 1) mod 16 and remembers the windows it saw."""

    def __init__(self) -> None:
        self.windows: list[list[int]] = []

    def __call__(self, window: list[int]) -> np.ndarray:
        self.windows.append(list(window))
        return np.where(np.arange(16) == (window[-1] + 1) % 16, 5.0, 0.0)


def test_full_window_drops_its_oldest_quarter() -> None:
    seen = Recorder()
    tokens = list(islice(sampling.generate(seen, 8, [0, 1, 2], 0, 0, 1.0, 1), 9))
    assert tokens == list(range(3, 12))
    assert seen.windows == [
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5, 6],
        [0, 1, 2, 3, 4, 5, 6, 7],
        [2, 3, 4, 5, 6, 7, 8],
        [2, 3, 4, 5, 6, 7, 8, 9],
        [4, 5, 6, 7, 8, 9, 10],
    ]


@pytest.mark.parametrize("ctx", [1, 2, 3])
def test_tiny_contexts_drop_one_token(ctx: int) -> None:
    seen = Recorder()
    assert list(islice(sampling.generate(seen, ctx, [5], 0, 0, 1.0, 1), 4)) == [6, 7, 8, 9]
    assert seen.windows[-1] == list(range(9 - ctx, 9))


def test_long_prompt_is_cropped_to_its_end() -> None:
    seen = Recorder()
    next(sampling.generate(seen, 4, list(range(10)), 0, 0, 1.0, 1))
    assert seen.windows == [[6, 7, 8, 9]]


def test_empty_prompt_is_refused() -> None:
    with pytest.raises(BackendError, match="prompt is empty"):
        next(sampling.generate(Recorder(), 4, [], 0, 0, 1.0, 1))


def test_the_uniform_belongs_to_the_position_in_the_whole_sequence() -> None:
    """Flat logits over 16 ids: the token is 16 u, whatever the window was cropped to."""
    prompt = list(range(10))
    tokens = list(islice(sampling.generate(lambda _: np.zeros(16), 4, prompt, 1, 0, 1.0, 9), 6))
    for k, token in enumerate(tokens):
        u = philox.uniform(9, 1, len(prompt) + k, 4 << 24)[0]
        assert token == int(16 * u)


def test_seeds_repeat_and_differ() -> None:
    def text(seed: int) -> list[int]:
        return list(islice(sampling.generate(Recorder(), 8, [0], 2.0, 0, 1.0, seed), 40))

    assert text(1) == text(1)
    assert text(1) != text(2)
