"""The oracle against transformers' GPT2LMHeadModel and torch's AdamW, live, both ways.

Needs the extra "interop". Without it these tests are skipped, or fail where
TABGPT_REQUIRE_INTEROP=1 says that they must run.
"""

from __future__ import annotations

import os
from itertools import islice

import numpy as np
import pytest
from interop import comparison
from safetensors.numpy import load_file
from small_models import random_params
from tabgpt import layout
from tabgpt.backends import open_session
from tabgpt.tokenizer import CharTokenizer

try:
    import torch
    import transformers
except ImportError as error:
    reason = f"{error}: pip install 'tabgpt[interop]' runs the live comparison with transformers"
    if os.environ.get("TABGPT_REQUIRE_INTEROP") == "1":
        pytest.fail(f"TABGPT_REQUIRE_INTEROP=1, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)

from interop import hf, write_fixture

EACH = pytest.mark.parametrize("case", list(comparison.CONFIGS))


def theirs(model, config):
    tokens, targets = comparison.batch(config)
    return hf.outcome(model, tokens, targets, comparison.PROMPT, comparison.new_tokens(config))


@EACH
@pytest.mark.parametrize("seed", [1, 2])
def test_their_weights_in_our_model(case: str, seed: int) -> None:
    config = comparison.CONFIGS[case]
    model = hf.random_model(config, seed)
    weights = hf.weights_of(model)
    expected = {tensor.name: tensor.shape for tensor in layout.tensors(config)}
    assert {name: array.shape for name, array in weights.items()} == expected
    comparison.assert_same(comparison.our_outcome(config, weights), theirs(model, config))


@EACH
@pytest.mark.parametrize("seed", [3, 4])
def test_our_weights_in_their_model(case: str, seed: int) -> None:
    config = comparison.CONFIGS[case]
    weights = random_params(config, seed, std=0.3)
    model = hf.loaded_model(config, weights)
    comparison.assert_same(comparison.our_outcome(config, weights), theirs(model, config))


def test_greedy_text_from_a_prompt_with_an_emoji() -> None:
    config = comparison.CONFIGS["usual"]
    tokenizer = CharTokenizer("".join(sorted("abcdefghij é\n🙂🚀火٣")))
    assert tokenizer.vocab_size == config.vocab_size
    weights = random_params(config, 3, std=0.3)
    prompt = tokenizer.encode("🙂 é").tolist()
    session = open_session("numpy", config)
    for name, array in weights.items():
        session.set(name, array)
    ours = tokenizer.decode(islice(session.generate(prompt, temperature=0), 9))
    theirs = tokenizer.decode(hf.greedy(hf.loaded_model(config, weights), prompt, 9))
    assert ours == theirs
    assert len(set(ours)) > 2, "a text of one letter shows little"


@EACH
def test_a_model_that_they_saved_and_we_read(case: str, tmp_path) -> None:
    """save_pretrained's float64 file holds our names and nothing else; it loads back equal."""
    config = comparison.CONFIGS[case]
    model = hf.random_model(config, 5)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    weights = hf.weights_of(model)
    assert saved.keys() == weights.keys()
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float64).eval()
    comparison.assert_same(comparison.our_outcome(config, saved), theirs(again, config))


@EACH
def test_five_steps_of_adamw_with_clipping(case: str) -> None:
    config = comparison.CONFIGS[case]
    model = hf.random_model(config, 6)
    ours, norms = comparison.our_trained(config, hf.weights_of(model))
    weights, their_norms = hf.trained(
        model, comparison.TRAIN, comparison.rates(), *comparison.batch(config)
    )
    np.testing.assert_allclose(norms, their_norms, rtol=1e-10)
    comparison.assert_same(ours, weights)


def test_the_committed_fixture_is_what_the_script_writes() -> None:
    committed, fresh = load_file(write_fixture.PATH), write_fixture.arrays()
    assert committed.keys() == fresh.keys()
    for name, array in fresh.items():
        np.testing.assert_allclose(committed[name], array, rtol=1e-9, atol=1e-12, err_msg=name)
