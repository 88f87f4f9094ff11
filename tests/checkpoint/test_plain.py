"""Pyodide's stand-in for the safetensors library writes and reads the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import safetensors.numpy
from tabgpt import safetensors_plain

RNG = np.random.default_rng(3)
TENSORS = {
    "transformer.wte.weight": RNG.standard_normal((5, 3)).astype(np.float32),
    "m:é 🦊": RNG.standard_normal(7),
    "half": RNG.standard_normal((2, 1, 3)).astype(np.float16),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 4), np.float32),
    "a": RNG.standard_normal(1),
}
METADATA = {"format": "pt", "step": "7", "text": 'quote " and é'}


def parts(path: Path) -> tuple[dict[str, object], bytes]:
    """The header without its order of metadata, which the library leaves to chance; the data."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert (8 + length) % 8 == 0
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def test_it_writes_what_the_library_writes(tmp_path: Path) -> None:
    safetensors_plain.save_file(TENSORS, tmp_path / "plain", METADATA)
    safetensors.numpy.save_file(TENSORS, tmp_path / "library", METADATA)
    (plain, data), (library, expected) = parts(tmp_path / "plain"), parts(tmp_path / "library")
    assert plain == library and data == expected
    order = [name for name in plain if name != "__metadata__"]
    assert order == [name for name in library if name != "__metadata__"]
    assert (tmp_path / "plain").stat().st_size == (tmp_path / "library").stat().st_size


def test_it_reads_what_the_library_writes(tmp_path: Path) -> None:
    safetensors.numpy.save_file(TENSORS, tmp_path / "library", METADATA)
    with safetensors_plain.safe_open(tmp_path / "library", framework="np") as file:
        for name, array in TENSORS.items():
            read = file.get_tensor(name)
            assert read.dtype == array.dtype
            np.testing.assert_array_equal(read, array)
