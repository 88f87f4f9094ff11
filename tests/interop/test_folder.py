"""transformers opens a run's folder as it is, and we open what transformers saves.

Needs the extra "interop", like test_live.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tabgpt
import tiny_run

try:
    import torch
    import transformers
except ImportError as error:
    reason = f"{error}: pip install 'tabgpt[interop]' runs the live comparison with transformers"
    if os.environ.get("TABGPT_REQUIRE_INTEROP") == "1":
        pytest.fail(f"TABGPT_REQUIRE_INTEROP=1, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)

TOKENS = np.array([[0, 5, 2, 9, 1], [3, 3, 8, 0, 7]])


def their_logits(model: transformers.GPT2LMHeadModel) -> np.ndarray:
    with torch.no_grad():
        return model.eval()(torch.from_numpy(TOKENS)).logits.double().numpy()


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu_erf"])
def test_a_run_opens_and_comes_back(tmp_path: Path, backend: str, activation: str) -> None:
    text = tmp_path / "tiny.txt"
    text.write_text(tiny_run.TEXT, encoding="utf-8")
    recipe = tiny_run.recipe(activation=activation, d_mlp=12, steps=20)
    list(tabgpt.train(recipe, text, backend=backend, out=tmp_path / "run"))
    ours = tabgpt.load(tmp_path / "run", backend=backend)

    theirs, about = transformers.GPT2LMHeadModel.from_pretrained(
        tmp_path / "run", output_loading_info=True
    )
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.config.n_inner == 12 and theirs.config.attn_pdrop == 0.1
    np.testing.assert_allclose(ours.logits(TOKENS), their_logits(theirs), atol=2e-5)

    theirs.save_pretrained(tmp_path / "lm")
    theirs.transformer.save_pretrained(tmp_path / "without prefix or head")
    for folder in ("lm", "without prefix or head"):
        again = tabgpt.load(tmp_path / folder, backend=backend)
        assert again.config == ours.config
        for name, array in ours.weights().items():
            np.testing.assert_array_equal(again.weights()[name], array)
        with pytest.raises(tabgpt.TabgptError, match="token ids"):
            again.generate("The")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files_are_converted(tmp_path: Path, dtype: torch.dtype) -> None:
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    theirs = transformers.GPT2LMHeadModel(config).to(dtype)
    theirs.save_pretrained(tmp_path)
    weights = tabgpt.load(tmp_path).weights()
    for name, parameter in theirs.named_parameters():
        np.testing.assert_array_equal(weights[name], parameter.detach().float().numpy())


def test_their_own_unequal_dropouts_are_refused(tmp_path: Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, attn_pdrop=0.0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(tabgpt.TabgptError, match=r"unequal dropouts.*attn_pdrop 0\.0"):
        tabgpt.load(tmp_path)
