"""Reading and writing one safetensors file, and saying what is wrong with a bad one.

The `safetensors` library reads and writes the tensors. The header is checked
here first, because the library's refusals do not name the tensor, the value and
the limit. The file is: u64 little-endian header length, the header (JSON:
name -> dtype, shape, data_offsets; `__metadata__` -> strings), the data.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import CheckpointError

if sys.platform == "emscripten":
    from .safetensors_plain import SafetensorError, safe_open, save_file
else:
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save_file

HEADER_LIMIT = 100_000_000
"""Bytes; the safetensors library's own limit."""
_COUNT_LIMIT = 2**63
"""No count or size reaches it: NumPy has none larger, even for a tensor that is empty."""
_DTYPES_BY_BYTES = {1: "BOOL U8 I8 F8_E5M2 F8_E4M3", 2: "I16 U16 F16 BF16", 4: "I32 U32 F32"}
_DTYPES_BY_BYTES[8] = "I64 U64 F64"
_ITEM_BYTES = {name: size for size, names in _DTYPES_BY_BYTES.items() for name in names.split()}
_FLOATS = ("F16", "BF16", "F32", "F64")
Array = npt.NDArray[Any]


class Entry(NamedTuple):
    """Where a tensor is: offsets in bytes from the file's start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(NamedTuple):
    path: Path
    entries: dict[str, Entry]
    metadata: dict[str, str]


def read_header(path: Path) -> Header:
    """The header of a sound file; CheckpointError names what is wrong with any other."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise CheckpointError(f"{path} is empty (0 bytes)")
            if size < 8:
                raise CheckpointError(
                    f"{path} is truncated: it has {size} bytes, and the header's length takes 8"
                )
            length = int.from_bytes(file.read(8), "little")
            if length > HEADER_LIMIT:
                raise CheckpointError(
                    f"{path} says that its header has {length} bytes, more than the limit of "
                    f"{HEADER_LIMIT}: it is corrupt, or no safetensors file"
                )
            if 8 + length > size:
                raise CheckpointError(
                    f"{path} is truncated: its header should have {length} bytes, and only "
                    f"{size - 8} follow"
                )
            text = file.read(length)
    except FileNotFoundError:
        raise CheckpointError(f"there is no file {path}; check the path") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    content = _parse(path, text)
    metadata = _metadata(path, content.pop("__metadata__", {}))
    entries = {name: _entry(path, name, value, 8 + length) for name, value in content.items()}
    _check_ranges(path, entries, 8 + length, size)
    return Header(path, entries, metadata)


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            name = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise CheckpointError(f"{path} is corrupt: its header names {name!r} twice")
        return result

    try:
        content = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is corrupt, or no safetensors file: its header is no JSON ({error})"
        ) from None
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path} is corrupt: its header is a {type(content).__name__}, not an object"
        )
    return content


def _metadata(path: Path, metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path} is corrupt: its metadata must map names to strings")
    return metadata


def _entry(path: Path, name: str, value: Any, data_start: int) -> Entry:
    """One tensor's description, checked alone."""

    def whole(numbers: Any) -> bool:
        return isinstance(numbers, list) and all(
            type(n) is int and 0 <= n < _COUNT_LIMIT for n in numbers
        )

    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(
            f"{path} is corrupt: tensor {name} needs dtype, shape and data_offsets, it has "
            f"{shown(sorted(value) if isinstance(value, dict) else value)}"
        )
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise CheckpointError(f"{path}: tensor {name} has the unknown dtype {shown(dtype)}")
    if not whole(shape):
        raise CheckpointError(f"{path} is corrupt: tensor {name} has the shape {shown(shape)}")
    if not whole(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(f"{path} is corrupt: tensor {name} has the offsets {shown(offsets)}")
    if math.prod(n for n in shape if n) * _ITEM_BYTES[dtype] >= _COUNT_LIMIT:
        raise CheckpointError(
            f"{path} is corrupt: tensor {name} has the shape {shown(shape)}, beyond 2^63 bytes"
        )
    need = math.prod(shape) * _ITEM_BYTES[dtype]
    if offsets[1] - offsets[0] != need:
        raise CheckpointError(
            f"{path} is corrupt: tensor {name} with shape {shown(shape)} and dtype {dtype} takes "
            f"{need} bytes, but its offsets {offsets} hold {offsets[1] - offsets[0]}"
        )
    return Entry(name, dtype, tuple(shape), data_start + offsets[0], data_start + offsets[1])


def _check_ranges(path: Path, entries: dict[str, Entry], data_start: int, size: int) -> None:
    """The tensors cover the data exactly: no overlap, no hole, nothing missing or left over."""
    at, before = data_start, "the start of the data"
    for entry in sorted(entries.values(), key=lambda e: (e.start, e.stop)):
        if entry.start < at:
            raise CheckpointError(
                f"{path} is corrupt: tensor {entry.name} overlaps {before} by "
                f"{min(at, entry.stop) - entry.start} bytes"
            )
        if entry.start > at:
            raise CheckpointError(
                f"{path} is corrupt: a hole of {entry.start - at} bytes between {before} and "
                f"tensor {entry.name}"
            )
        if entry.stop > size:
            raise CheckpointError(
                f"{path} is truncated: tensor {entry.name} ends at byte {entry.stop}, and the "
                f"file has {size}"
            )
        at, before = entry.stop, f"tensor {entry.name}"
    if at != size:
        raise CheckpointError(f"{path} is corrupt: {size - at} bytes follow the last tensor")


def read_floats(header: Header, names: list[str]) -> dict[str, Array]:
    """Tensors as float32 (from float16, bfloat16 and float32) or float64; NaN and Inf refused."""
    try:
        with safe_open(header.path, framework="np") as file:
            return {name: _read_float(file, header, header.entries[name]) for name in names}
    except SafetensorError as error:
        raise CheckpointError(f"{header.path} is corrupt: {error}") from None


def _read_float(file: Any, header: Header, entry: Entry) -> Array:
    if entry.dtype not in _FLOATS:
        raise CheckpointError(
            f"{header.path}: tensor {entry.name} has the dtype {entry.dtype}; weights must be "
            f"one of {', '.join(_FLOATS)}"
        )
    bfloat16 = entry.dtype == "BF16"
    array = _bfloat16(header, entry) if bfloat16 else file.get_tensor(entry.name)
    if entry.dtype == "F16":
        array = array.astype(np.float32)
    _check_finite(header.path, entry.name, array)
    return array


def _bfloat16(header: Header, entry: Entry) -> Array:
    """NumPy has no bfloat16: it is the upper half of a float32."""
    count = (entry.stop - entry.start) // 2
    raw = np.fromfile(header.path, "<u2", count, offset=entry.start)
    return (raw.astype(np.uint32) << 16).view(np.float32).reshape(entry.shape)


def first_not_finite(array: Array) -> tuple[int, ...] | None:
    """Where the first NaN or Inf is; None where every value is finite."""
    finite = np.isfinite(array)
    return None if finite.all() else tuple(int(i) for i in np.argwhere(~finite)[0])


def _check_finite(path: Path, name: str, array: Array) -> None:
    at = first_not_finite(array)
    if at is not None:
        raise CheckpointError(
            f"{path}: tensor {name} holds {array[at]} at {list(at)} "
            f"({int((~np.isfinite(array)).sum())} values of {array.size} are not finite); use a "
            f"checkpoint from before the training diverged"
        )


def write_atomically(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """A new file beside it, flushed to the disk, then renamed over: never half a file.

    The new file has a folder of its own, since the library first writes another beside it, by a
    random name that a kill leaves behind.
    """
    work = path.with_name(f".{path.name}.partial")
    partial = work / path.name
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    try:
        remove(work)
        work.mkdir()
        partial.touch()
        mode = partial.stat().st_mode
        save_file(contiguous, partial, metadata=dict(metadata))
        partial.chmod(mode)  # the library makes files that only their owner may read
        _sort_metadata(partial)
        commit(partial, path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"cannot write {path}: {error}. What was there before is untouched; check the "
            f"folder's permissions and free space"
        ) from None
    finally:
        remove(work)


def remove(path: Path) -> None:
    """A file or a folder, as well as it goes: a file system may have become read-only."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _sort_metadata(path: Path) -> None:
    """The library writes the metadata in a random order; sorted, equal runs give equal files."""
    with path.open("rb+") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        if len(text) <= length:  # always so while the library writes compact JSON
            file.seek(8)
            file.write(text.ljust(length))


def commit(partial: Path, path: Path) -> None:
    """Flushes `partial` and renames it to `path`; the folder's entry is flushed too."""
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
