"""transformers' own files: what is read, and which options are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import tiny_run
from tabgpt import api, hf
from tabgpt import checkpoint as checkpoints
from tabgpt.errors import CheckpointError, TokenizerError

Tensors = dict[str, np.ndarray]


def weights() -> Tensors:
    return tiny_run.checkpoint(dtype=np.float32).tensors


def write(folder: Path, tensors: Tensors, **options: Any) -> Path:
    """A folder as transformers leaves it: its config.json, and only `format` as metadata."""
    folder.mkdir(exist_ok=True)
    config = {**hf.config_to_hf(tiny_run.model_config()), **options}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_config_both_ways() -> None:
    for overrides in ({}, {"d_mlp": 20}, {"activation": "gelu_erf"}, {"dropout": 0.25}):
        config = tiny_run.model_config(**overrides)
        assert hf.config_from_hf(hf.config_to_hf(config)) == config


def test_what_is_left_out_has_transformers_defaults() -> None:
    config = hf.config_from_hf({"model_type": "gpt2"})
    assert (config.vocab_size, config.ctx, config.d_model) == (50257, 1024, 768)
    assert (config.d_mlp, config.dropout, config.activation) == (3072, 0.1, "gelu_tanh")


@pytest.mark.parametrize("prefix", ["transformer.", ""])
@pytest.mark.parametrize("head", [True, False])
def test_prefix_old_masks_and_tied_head(tmp_path: Path, prefix: str, head: bool) -> None:
    ours = weights()
    stored = {prefix + name.removeprefix("transformer."): array for name, array in ours.items()}
    stored[f"{prefix}h.0.attn.bias"] = np.tril(np.ones((1, 1, 8, 8), bool))
    stored[f"{prefix}h.1.attn.masked_bias"] = np.array(-1e4, np.float32)
    if head:
        stored["lm_head.weight"] = ours["transformer.wte.weight"].copy()
    folder = write(tmp_path, stored)
    for path in (folder, folder / "model.safetensors"):
        read = checkpoints.load(path)
        assert list(read.tensors) == list(ours)
        for name in ours:
            np.testing.assert_array_equal(read.tensors[name], ours[name])


def test_a_head_of_its_own_is_refused(tmp_path: Path) -> None:
    head = weights()["transformer.wte.weight"].copy()
    head[2, 3] += 1
    folder = write(tmp_path, {**weights(), "lm_head.weight": head})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight.*tied"):
        checkpoints.load(folder)


def test_float16_and_bfloat16_are_converted(tmp_path: Path) -> None:
    half = {name: array.astype(np.float16) for name, array in weights().items()}
    read = checkpoints.load(write(tmp_path, half)).tensors
    for name in half:
        assert read[name].dtype == np.float32
        np.testing.assert_array_equal(read[name], half[name].astype(np.float32))

    # a bfloat16 is the upper half of a float32; NumPy has none, so the header is edited
    upper = {name: (a.view(np.uint32) >> 16).astype(np.uint16) for name, a in weights().items()}
    file = write(tmp_path, upper) / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"dtype":"U16"', b'"dtype":"BF16"', -1))
    raw = file.read_bytes()
    length = raw.index(b"}}", 8) + 2 - 8
    data_length = sum(array.nbytes for array in upper.values())
    header = raw[8 : 8 + length]
    file.write_bytes(len(header).to_bytes(8, "little") + header + raw[-data_length:])
    read = checkpoints.load(tmp_path).tensors
    for name in upper:
        expected = (upper[name].astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(read[name], expected)


def test_shards(tmp_path: Path) -> None:
    ours, names = weights(), list(weights())
    folder = write(tmp_path, {})
    (folder / "model.safetensors").unlink()
    parts = {"model-1-of-2.safetensors": names[:5], "model-2-of-2.safetensors": names[5:]}
    for file, part in parts.items():
        safetensors.numpy.save_file({n: ours[n] for n in part}, folder / file, {"format": "pt"})
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    read = checkpoints.load(folder).tensors
    for name in ours:
        np.testing.assert_array_equal(read[name], ours[name])
    index["weight_map"][names[0]] = "../model.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="names no files of this folder"):
        checkpoints.load(folder)


@pytest.mark.parametrize("weight_map", [None, [1], {}, {"a": 5}, {"a": {}}, {"a": "../x"}])
def test_an_odd_index_is_refused(tmp_path: Path, weight_map: object) -> None:
    folder = write(tmp_path, weights())
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match="names no files of this folder: its weight_map is"):
        checkpoints.load(folder)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"[]", b"{"])
def test_a_config_that_is_no_json_object_is_refused(tmp_path: Path, raw: bytes) -> None:
    folder = write(tmp_path, weights())
    (folder / "config.json").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        checkpoints.load(folder)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model_type", "llama"),
        ("activation_function", "relu"),
        ("layer_norm_epsilon", 1e-6),
        ("scale_attn_weights", False),
        ("scale_attn_by_inverse_layer_idx", True),
        ("reorder_and_upcast_attn", True),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("attn_pdrop", 0.3),
        ("resid_pdrop", 0.3),
        ("n_head", 3),
        ("n_layer", 10**9),
        ("n_inner", -4),
        ("vocab_size", "many"),
    ],
)
def test_options_that_are_not_computed_are_named(
    tmp_path: Path, option: str, value: object
) -> None:
    folder = write(tmp_path, weights(), **{option: value})
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(folder)
    ours = {"n_inner": "d_mlp"}.get(option, option)
    assert ours in str(caught.value) and str(value) in str(caught.value)


def test_no_config_beside_the_file(tmp_path: Path) -> None:
    folder = write(tmp_path, weights())
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"there is no .*config\.json"):
        checkpoints.load(folder)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_model_without_our_tokenizer_takes_ids(tmp_path: Path, backend: str) -> None:
    model = api.load(write(tmp_path, weights()), backend=backend)
    assert len(model.generate([1, 2], max_new_tokens=3, seed=4)) == 5
    for ask in (lambda: model.generate("text"), lambda: model.generate("")):
        with pytest.raises(TokenizerError, match="token ids"):
            ask()
