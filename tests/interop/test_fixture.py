"""The oracle against what transformers and torch computed when the fixture was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interop import comparison
from safetensors.numpy import load_file

FIXTURE = Path(__file__).with_name("fixture.safetensors")


def kinds(case: str) -> dict[str, dict[str, np.ndarray]]:
    """kind -> name -> array of one case."""
    result: dict[str, dict[str, np.ndarray]] = {}
    for key, array in load_file(FIXTURE).items():
        of, kind, name = key.split("/")
        if of == case:
            result.setdefault(kind, {})[name] = array
    return result


@pytest.mark.parametrize("case", ["usual", "odd sizes"])
def test_logits_loss_every_gradient_and_greedy_tokens(case: str) -> None:
    theirs = kinds(case)
    ours = comparison.our_outcome(comparison.CONFIGS[case], theirs["weights"])
    assert len(set(ours["greedy"])) > 1, "a continuation of one token shows little"
    comparison.assert_same(ours, theirs["outcome"])


@pytest.mark.parametrize("case", ["usual", "odd sizes"])
def test_five_steps_of_adamw_with_clipping(case: str) -> None:
    theirs = kinds(case)
    ours, norms = comparison.our_trained(comparison.CONFIGS[case], theirs["weights"])
    np.testing.assert_allclose(norms, theirs["norms"]["norms"], rtol=1e-10)
    assert max(norms) > comparison.TRAIN.grad_clip, "clipping never fired"
    comparison.assert_same(ours, theirs["trained"])


def test_the_fixture_is_small() -> None:
    assert FIXTURE.stat().st_size < 200_000
