"""What we use of the `safetensors` library, for Pyodide, where the library has no build.

The format is a header and the tensors' bytes, so this is short; `safetensors_file`
has checked a header before it is read here. Same order and padding as the library's:
larger dtypes first, then by name; the header padded with spaces to 8 bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
Array = npt.NDArray[Any]


class SafetensorError(Exception):
    """The library's; nothing here raises it."""


def save_file(tensors: Mapping[str, Array], path: Path, metadata: Mapping[str, str]) -> None:
    """Writes C-contiguous tensors of float16, float32 or float64."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        entry = {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            file.write(array.astype(_DTYPES[_NAMES[array.dtype]], copy=False).data)


class safe_open:
    """A file's tensors by name; its header has been checked."""

    def __init__(self, path: Path, framework: str) -> None:
        assert framework == "np"
        self._path = path
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            self._entries = json.loads(file.read(length))
        self._start = 8 + length

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_tensor(self, name: str) -> Array:
        entry = self._entries[name]
        start, shape = self._start + entry["data_offsets"][0], entry["shape"]
        count = math.prod(shape)
        flat = np.fromfile(self._path, _DTYPES[entry["dtype"]], count, offset=start)
        return flat.reshape(shape)
