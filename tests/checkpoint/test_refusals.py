"""Every kind of bad file is refused by a message that names what is wrong and where."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt.errors import CheckpointError, NonFiniteError
from tabgpt.safetensors_file import read_header, write_atomically

WTE = "transformer.wte.weight"
WPE = "transformer.wpe.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoints.save(tmp_path / "model", tiny_run.checkpoint(dtype=np.float32))
    return tmp_path / "model"


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(path, moments=False)
    for part in (str(path), *parts):
        assert part in str(caught.value)


def split(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def join(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def edit(folder: Path, change: Callable[[dict[str, Any]], None], more: bytes = b"") -> None:
    file = folder / "model.safetensors"
    header, data = split(file.read_bytes())
    change(header)
    file.write_bytes(join(header, data + more))


def test_missing(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "there is no checkpoint", "check the path")


def test_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    refused(tmp_path, "holds no model.safetensors", "notes.txt")


def test_empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")
    refused(folder, "is empty (0 bytes)")


@pytest.mark.parametrize("keep", [1, 7, 8, 100, 5000, -4, -1])
def test_truncated(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    refused(folder, "is truncated")


@pytest.mark.parametrize(
    "header",
    [b"\xff" * 64, b"{" * 64, b"[1, 2]" + b" " * 58, b"[" * 60000, b"PK\x03\x04" + b"\0" * 60],
)
def test_corrupt_header(folder: Path, header: bytes) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    refused(folder, "is corrupt", "header")


@pytest.mark.parametrize("length", [100_000_001, 2**63, 2**64 - 1])
def test_oversized_header(folder: Path, length: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + file.read_bytes()[8:])
    refused(folder, str(length), "limit of 100000000")


def test_repeated_name(folder: Path) -> None:
    file = folder / "model.safetensors"
    header, data = split(file.read_bytes())
    text = json.dumps(header)[:-1] + f', "{WTE}": {json.dumps(header[WTE])}}}'
    file.write_bytes(len(text).to_bytes(8, "little") + text.encode() + data)
    refused(folder, f"names '{WTE}' twice")


def test_overlapping(folder: Path) -> None:
    def shift(header: dict[str, Any]) -> None:
        header[WPE]["data_offsets"] = [n - 4 for n in header[WPE]["data_offsets"]]

    edit(folder, shift)
    refused(folder, "overlaps", "by 4 bytes", "transformer.")


def test_holed(folder: Path) -> None:
    def shift(header: dict[str, Any]) -> None:
        last = max(
            (k for k in header if k != "__metadata__"), key=lambda k: header[k]["data_offsets"]
        )
        header[last]["data_offsets"] = [n + 12 for n in header[last]["data_offsets"]]

    edit(folder, shift, b"\0" * 12)
    refused(folder, "a hole of 12 bytes", "transformer.")


def test_bytes_left_over(folder: Path) -> None:
    edit(folder, lambda header: None, b"\0" * 6)
    refused(folder, "6 bytes follow the last tensor")


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("dtype", "F12", "unknown dtype 'F12'"),
        ("dtype", 3, "unknown dtype 3"),
        ("dtype", "F16", "takes 176 bytes"),
        ("shape", [11, -8], "the shape [11, -8]"),
        ("shape", [11, 8.0], "the shape [11, 8.0]"),
        ("shape", [11, True], "the shape [11, True]"),
        ("shape", [12, 8], "takes 384 bytes"),
        ("shape", [2**30, 2**30], "takes"),
        # Found by tests/fuzz_checkpoints.py: too long to print, too large for NumPy though empty.
        ("shape", [10**1000] * 10, "the shape [1000"),
        ("shape", [2**40] * 400, "beyond 2^63 bytes"),
        ("shape", [2**62, 2, 0], "beyond 2^63 bytes"),
        ("data_offsets", [8, 4], "the offsets [8, 4]"),
        ("data_offsets", [-8, 344], "the offsets [-8, 344]"),
        ("data_offsets", [0], "the offsets [0]"),
        ("extra", 1, "needs dtype, shape and data_offsets"),
    ],
)
def test_bad_entry(folder: Path, key: str, value: object, part: str) -> None:
    edit(folder, lambda header: header[WTE].__setitem__(key, value))
    refused(folder, WTE, part)


def test_wrong_shape(folder: Path) -> None:
    edit(folder, lambda header: header[WTE].__setitem__("shape", [8, 11]))
    refused(folder, WTE, "[8, 11]", "[11, 8]")


def test_wrong_dtype(folder: Path) -> None:
    edit(folder, lambda header: header[WTE].__setitem__("dtype", "I32"))
    refused(folder, WTE, "I32", "F32")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_finite(tmp_path: Path, value: float, dtype: type) -> None:
    name = "transformer.h.1.mlp.c_fc.weight"
    made = tiny_run.checkpoint(dtype=dtype)
    checkpoints.save(tmp_path, made)
    header = read_header(tmp_path / "model.safetensors")
    made.tensors[name][3, 5] = value
    write_atomically(header.path, made.tensors, header.metadata)
    refused(tmp_path, name, str(value), "[3, 5]")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["transformer.h.1.mlp.c_fc.weight", f"m:{WTE}", f"v:{WTE}"])
def test_not_finite_is_not_saved(tmp_path: Path, value: float, name: str) -> None:
    """What was there before stands, to the last file."""
    made = tiny_run.checkpoint(dtype=np.float32)
    made.moments = {f"{role}:{n}": a.copy() for role in "mv" for n, a in made.tensors.items()}
    checkpoints.save(tmp_path, made)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    made.step = 1
    {**made.tensors, **made.moments}[name][3, 5] = value
    with pytest.raises(NonFiniteError, match=rf"tensor {name} holds {value} at \[3, 5\]"):
        checkpoints.save(tmp_path, made)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_missing_and_unknown_tensor(folder: Path) -> None:
    def rename(header: dict[str, Any]) -> None:
        header["transformer.h.9.ln_1.weight"] = header.pop("transformer.h.1.ln_1.weight")

    edit(folder, rename)
    refused(folder, "transformer.h.9.ln_1.weight, which this model lacks")
    edit(folder, lambda header: header.pop("transformer.h.9.ln_1.weight"))
    refused(folder, "is corrupt")
    made = tiny_run.checkpoint()
    del made.tensors["transformer.h.1.ln_1.weight"]
    checkpoints.save(folder, made)
    refused(folder, "lacks the tensor transformer.h.1.ln_1.weight")


def metadata(folder: Path, key: str, value: str | None) -> None:
    def change(header: dict[str, Any]) -> None:
        if value is None:
            del header["__metadata__"][key]
        else:
            header["__metadata__"][key] = value

    edit(folder, change)


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("tabgpt_schema", "2", ["schema '2'"]),
        ("config", None, ["lacks 'config'"]),
        ("config", "{", ["'config'", "no JSON"]),
        ("config", "[]", ["'config'", "no JSON object"]),
        ("config", '{"vocab_size": 11}', ["ModelConfig lacks ctx"]),
        ("tokenizer", "7", ["'tokenizer'", "no JSON object"]),
        ("tokenizer", '{"kind": "bpe"}', ["char (with", "byte or none"]),
        ("tokenizer", '{"kind": "byte"}', ["vocabulary mismatch", "11", "256"]),
        ("tokenizer", '{"kind": "char", "vocab": "abc"}', ["vocabulary mismatch", "11", "3"]),
        ("tokenizer", '{"kind": "char", "vocab": "ba"}', ["not sorted", "'b'"]),
        ("tokenizer", '{"kind": "char", "vocab": "aab"}', ["not sorted", "'a'"]),
        ("tokenizer", '{"kind": "char", "vocab": ""}', ["is empty"]),
        ("step", "-1", ["'step'", "'-1'"]),
        ("step", "1e9", ["'step'", "'1e9'"]),
        ("step", "4294967296", ["'step' is 4294967296, past the last step 4294967295"]),
        ("optimizer", "../optimizer-000001.safetensors", ["odd name '../optimizer"]),
        ("optimizer", "optimizer-\u0661.safetensors", ["odd name"]),
        ("config", "[" * 100_000, ["'config' is no JSON"]),
        ("tokenizer", '{"kind": "none", "more": NaN}', ["'tokenizer' is no JSON", "NaN"]),
        ("tokenizer", '{"kind": "char", "vocab": "a\\ud800"}', ["half a surrogate pair"]),
        ("corpus", '{"path": 5}', ["'corpus' has the path 5"]),
        ("corpus", '{"name": "\\ud800"}', ["'corpus' has the name '\\ud800'"]),
    ],
)
def test_bad_metadata(folder: Path, key: str, value: str | None, parts: list[str]) -> None:
    metadata(folder, key, value)
    refused(folder, *parts)


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("n_layer", 10**9, "n_layer is 1000000000; it must be from 1 to 1023"),
        ("n_head", 3, "n_head 3 does not divide"),
        ("d_model", 0, "d_model is 0"),
        ("dropout", 1.5, "dropout is 1.5"),
        ("colour", 1, "unknown key 'colour'"),
    ],
)
def test_absurd_config(folder: Path, field: str, value: object, part: str) -> None:
    config = {**tiny_run.model_config().to_dict(), field: value}
    metadata(folder, "config", json.dumps(config))
    refused(folder, part)


def test_a_step_past_the_runs_last(folder: Path) -> None:
    metadata(folder, "train", json.dumps(tiny_run.recipe(steps=30).train.to_dict()))
    metadata(folder, "step", "31")
    refused(folder, "'step' is 31, past the last step 30")


def test_metadata_that_is_no_strings(folder: Path) -> None:
    edit(folder, lambda header: header["__metadata__"].__setitem__("step", 3))
    refused(folder, "metadata must map names to strings")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickles_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    refused(tmp_path / name, "is a pickle", "safetensors")


def moments(folder: Path) -> None:
    checkpoints.load(folder, moments=True)


def test_bad_optimizer_files(tmp_path: Path) -> None:
    made = tiny_run.checkpoint()
    made.step = 7
    made.moments = {f"{r}:{n}": np.zeros_like(a) for r in "mv" for n, a in made.tensors.items()}
    checkpoints.save(tmp_path, made)
    moments(tmp_path)
    file = tmp_path / "optimizer-000007.safetensors"
    sound = file.read_bytes()

    def refused_moments(part: str) -> None:
        with pytest.raises(CheckpointError, match=re.escape(part)):
            moments(tmp_path)

    header, data = split(sound)
    header["__metadata__"]["step"] = "6"
    file.write_bytes(join(header, data))
    refused_moments("is of step 6, the weights of 7")
    header["__metadata__"]["step"] = "7"
    header[f"m:{WTE}"]["shape"] = [8, 11]
    file.write_bytes(join(header, data))
    refused_moments(f"tensor m:{WTE} has the shape [8, 11]")
    header[f"x:{WTE}"] = header.pop(f"m:{WTE}")
    file.write_bytes(join(header, data))
    refused_moments(f"lacks the tensor m:{WTE}")
    file.unlink()
    refused_moments(f"there is no file {file}")
    metadata(tmp_path, "optimizer", "../secret.safetensors")
    refused_moments("odd name '../secret.safetensors'")
    metadata(tmp_path, "optimizer", None)
    refused_moments("holds no optimizer state")
