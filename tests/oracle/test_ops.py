"""What each operation promises beyond its derivative."""

from __future__ import annotations

import numpy as np
import pytest
from tabgpt import ops, philox
from tabgpt.ops import Dropout


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape)


def test_dropout_keeps_where_the_word_reaches_the_threshold() -> None:
    half = Dropout(0.5, seed=9, step=4, micro=2)
    words = philox.bits(9, 2 * 3 * 5, 4, 3 << 24 | 2 << 16 | 6 << 4 | ops.MLP_RESIDUAL)
    expected = np.where(words >= 2**31, 2.0, 0.0).reshape(2, 3, 5)
    np.testing.assert_array_equal(half.factor((2, 3, 5), 6, ops.MLP_RESIDUAL), expected)


def test_dropout_threshold_is_inclusive(monkeypatch) -> None:
    """p = 2^-8: words 2^24 - 1 and below are dropped, 2^24 is kept."""
    words = np.array([0, 2**24 - 1, 2**24, 2**32 - 1], np.uint32)
    monkeypatch.setattr(philox, "bits", lambda *_: words)
    factor = Dropout(2.0**-8).factor((4,), 0, ops.EMBEDDING)
    assert factor.tolist() == [0, 0, 256 / 255, 256 / 255]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_the_share_p_and_keeps_the_mean(p: float) -> None:
    factor = Dropout(p, seed=1).factor((200, 1000), 0, ops.ATTENTION)
    spread = 5 * np.sqrt(p * (1 - p) / factor.size)
    assert abs((factor == 0).mean() - p) < spread
    assert abs(factor.mean() - 1) < spread / (1 - p)
    assert set(np.unique(factor)) == {0, 1 / (1 - p)}


def test_dropout_masks_differ_by_site_layer_step_and_micro() -> None:
    def mask(layer: int = 0, site: int = 0, **where: int) -> tuple:
        return tuple(Dropout(0.5, **({"seed": 1} | where)).factor((64,), layer, site))

    masks = {mask(), mask(1), mask(0, 1), mask(0, 2), mask(0, 3)}
    masks |= {mask(step=1), mask(micro=1), mask(seed=2)}
    assert len(masks) == 8


def test_no_dropout_is_the_number_1() -> None:
    assert Dropout(0.0).factor((2, 2), 0, 0) == 1.0


def naive_attention(qkv: np.ndarray, n_head: int) -> tuple[np.ndarray, np.ndarray]:
    """One row at a time, as the definition reads: out and lse."""
    B, T, C3 = qkv.shape
    C, D = C3 // 3, C3 // 3 // n_head
    out, lse = np.zeros((B, T, C)), np.zeros((B, n_head, T))
    for b, h, t in np.ndindex(B, n_head, T):
        columns = slice(h * D, (h + 1) * D)
        q, k, v = (qkv[b, :, part * C : (part + 1) * C][:, columns] for part in range(3))
        scores = k[: t + 1] @ q[t] / np.sqrt(D)
        weights = np.exp(scores)
        lse[b, h, t] = np.log(weights.sum())
        out[b, t, columns] = weights @ v[: t + 1] / weights.sum()
    return out, lse


@pytest.mark.parametrize(("B", "T", "H", "D"), [(1, 1, 1, 1), (2, 5, 3, 4), (3, 7, 2, 5)])
def test_attention_is_its_definition(B: int, T: int, H: int, D: int) -> None:
    qkv = normal(B, T, 3 * H * D)
    out, lse = ops.attention_forward(qkv, H, 1.0)
    expected_out, expected_lse = naive_attention(qkv, H)
    np.testing.assert_allclose(out, expected_out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-12, atol=1e-14)


def test_attention_dropout_acts_on_normalised_probabilities() -> None:
    """With v = 1 everywhere, the output is the sum of the kept probabilities over 1 - p."""
    qkv = normal(1, 4, 3 * 2)
    qkv[..., 4:] = 1
    factor = Dropout(0.5, seed=3).factor((1, 1, 4, 4), 0, ops.ATTENTION)
    out, lse = ops.attention_forward(qkv, 1, factor)
    q, k = qkv[0, :, :2], qkv[0, :, 2:4]
    probabilities = np.tril(np.exp(q @ k.T / np.sqrt(2) - lse[0, 0][:, None]))
    np.testing.assert_allclose(probabilities.sum(-1), 1)
    np.testing.assert_allclose(out[0, :, 0], (probabilities * factor[0, 0]).sum(-1))


def test_attention_survives_scores_beyond_exp() -> None:
    out, lse = ops.attention_forward(1e3 * normal(1, 6, 9), 1, 1.0)
    assert np.isfinite(out).all()
    assert np.isfinite(lse).all()


def test_layernorm_rows_have_mean_0_and_variance_1() -> None:
    out, mean, rstd = ops.layernorm_forward(5 + 3 * normal(2, 3, 64), np.ones(64), np.zeros(64))
    np.testing.assert_allclose(out.mean(-1), 0, atol=1e-13)
    np.testing.assert_allclose((out**2).mean(-1), 1, rtol=1e-4)
    assert mean.shape == rstd.shape == (2, 3)


def test_layernorm_eps_is_inside_the_root() -> None:
    out, _, rstd = ops.layernorm_forward(np.full((1, 1, 8), 3.0), np.ones(8), np.full(8, 0.25))
    np.testing.assert_array_equal(out, 0.25)
    np.testing.assert_allclose(rstd, 1 / np.sqrt(1e-5))


def test_cross_entropy_of_equal_logits_is_log_v_and_large_logits_stay_finite() -> None:
    targets = np.array([[0, 4]])
    np.testing.assert_allclose(ops.cross_entropy_forward(np.zeros((1, 2, 5)), targets), np.log(5))
    logits = np.zeros((1, 2, 5))
    logits[..., 0] = 1e4
    np.testing.assert_allclose(ops.cross_entropy_forward(logits, targets), [[0, 1e4]])
    dlogits = ops.cross_entropy_backward(logits, targets, 0.5)
    np.testing.assert_allclose(dlogits[0, 1], [0.5, 0, 0, 0, -0.5], atol=1e-300)


def test_cross_entropy_backward_leaves_its_input_alone() -> None:
    logits = normal(1, 2, 3)
    before = logits.copy()
    ops.cross_entropy_backward(logits, np.zeros((1, 2), int), 1.0)
    np.testing.assert_array_equal(logits, before)


def test_embedding_backward_adds_rows_of_repeated_tokens() -> None:
    tokens = np.array([[2, 0, 2], [2, 4, 0]])
    dx = normal(2, 3, 5)
    dwte, dwpe = ops.embedding_backward(dx, tokens, np.zeros((6, 5)), np.zeros((4, 5)))
    expected = np.zeros((6, 5))
    np.add.at(expected, tokens, dx)
    np.testing.assert_allclose(dwte, expected, atol=1e-15)
    np.testing.assert_allclose(dwpe[:3], dx.sum(0))
    assert (dwpe[3] == 0).all()
