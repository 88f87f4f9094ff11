"""Hugging Face's GPT-2: its config.json in both directions, and the names of its tensors.

An option of GPT2Config that would change what the model computes is refused by
name; options of other tasks (summary heads, generation) are of no effect here.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .config import FIELDS, ModelConfig, suggestion
from .errors import CheckpointError, ConfigError

_ACTIVATION_TO_HF = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu"}
_ACTIVATION_FROM_HF = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",  # the same formula, another implementation
    "gelu": "gelu_erf",
}
_GPT2_DEFAULTS = {  # of GPT2Config: transformers leaves out of a config.json what equals them
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
}
_DROPOUTS = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
_REQUIRED_OPTIONS = {  # the value that this model has, which is also GPT2Config's default
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_OLD_BUFFER = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)")
_PREFIX = "transformer."
LM_HEAD = "lm_head.weight"


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """What transformers' GPT2Config reads."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.ctx,
        "n_embd": config.d_model,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_inner": config.d_mlp,
        "activation_function": _ACTIVATION_TO_HF[config.activation],
        "layer_norm_epsilon": _GPT2_DEFAULTS["layer_norm_epsilon"],
        "initializer_range": 0.02,
        **dict.fromkeys(_DROPOUTS, config.dropout),
        **_REQUIRED_OPTIONS,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def config_from_hf(values: Mapping[str, Any]) -> ModelConfig:
    """GPT2Config's values as ours; CheckpointError names the option that we do not compute."""
    if values.get("model_type") != "gpt2":
        raise CheckpointError(
            f"config.json has the model_type {values.get('model_type')!r}; only gpt2 can be read"
        )
    for option, required in _REQUIRED_OPTIONS.items():
        if values.get(option, required) is not required:
            raise CheckpointError(
                f"config.json sets {option} to {values[option]!r}; only {required!r} is computed"
            )
    get = {name: values.get(name, default) for name, default in _GPT2_DEFAULTS.items()}
    epsilon = get["layer_norm_epsilon"]
    if not isinstance(epsilon, float) or not math.isclose(epsilon, 1e-5):
        raise CheckpointError(
            f"config.json sets layer_norm_epsilon to {epsilon!r}; only 1e-05 is computed"
        )
    activation = get["activation_function"]
    if not isinstance(activation, str) or activation not in _ACTIVATION_FROM_HF:
        raise CheckpointError(
            f"config.json sets activation_function to {activation!r}; only "
            f"{', '.join(_ACTIVATION_FROM_HF)} are computed"
        )
    try:
        dropouts = {
            name: dataclasses.replace(FIELDS["dropout"], name=name).check(values.get(name, 0.1))
            for name in _DROPOUTS
        }
        if len(set(dropouts.values())) > 1:
            raise CheckpointError(
                "config.json has unequal dropouts ("
                + ", ".join(f"{name} {value}" for name, value in dropouts.items())
                + "); one value for all three is computed"
            )
        inner = values.get("n_inner")
        if inner is not None and not inner:
            raise CheckpointError(
                f"config.json sets n_inner to {inner!r}; it is null, or 1 or more"
            )
        return ModelConfig(
            vocab_size=get["vocab_size"],
            ctx=get["n_positions"],
            n_layer=get["n_layer"],
            n_head=get["n_head"],
            d_model=get["n_embd"],
            d_mlp=0 if inner is None else inner,
            dropout=dropouts["embd_pdrop"],
            activation=_ACTIVATION_FROM_HF[activation],
        )
    except ConfigError as error:
        raise CheckpointError(f"config.json: {error}") from None


def stored_names(stored: Iterable[str], wanted: list[str]) -> dict[str, str]:
    """Our name -> the file's name, for every tensor of the model.

    Files of GPT2Model have no `transformer.` prefix; files of old versions hold the
    causal mask as `attn.bias` and `attn.masked_bias`, which are not weights.
    """
    names: dict[str, str] = {}
    for name in stored:
        if _OLD_BUFFER.fullmatch(name) or name == LM_HEAD:
            continue
        ours = name if name.startswith(_PREFIX) else _PREFIX + name
        if ours in names:
            raise CheckpointError(f"the checkpoint holds both {names[ours]} and {name}")
        if ours not in wanted:
            raise CheckpointError(
                f"the checkpoint holds the tensor {name}, which this model lacks"
                f"{suggestion(ours, wanted) if len(wanted) < 20 else ''}"
            )
        names[ours] = name
    missing = [name for name in wanted if name not in names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"the checkpoint lacks the tensor {missing[0]}{more}")
    return names
