#!/usr/bin/env python3
"""Damaged safetensors files, read by Python's reader, by the page's and by a third one here.

    python tests/fuzz_checkpoints.py --count 100000 --seed 1

fuzz_files.py makes the inputs. A reader may refuse one by its own error (CheckpointError,
TabgptError), or must give exactly the tensors that the third reader finds. What the third reader
finds sound, both must accept. Prints each finding with its number; --only N shows one input again.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fuzz_run
import numpy as np
from fuzz_files import FLOATS, ITEM, Object, make
from tabgpt import safetensors_file
from tabgpt.errors import CheckpointError

ROOT = Path(__file__).resolve().parent.parent
READER = ROOT / "tests/fuzz_read.ts"


# -- the third reader ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def values(self) -> np.ndarray | None:
        """None where it holds no floats, or one that is not finite."""
        if self.dtype == "BF16":
            wide = np.frombuffer(self.data, "<u2").astype("<u4") * 65536
            found = wide.astype("<u4").view("<f4")
        elif self.dtype in FLOATS:
            found = np.frombuffer(self.data, f"<f{ITEM[self.dtype]}")
        else:
            return None
        return found.reshape(self.shape) if np.isfinite(found).all() else None


@dataclass(frozen=True)
class Reading:
    """`strict`: to the letter of the format, so that it must be accepted."""

    metadata: dict[str, str]
    tensors: dict[str, Tensor]
    strict: bool


def independent(raw: bytes) -> Reading | None:
    """From the format's description alone; None for a file that is not sound.

    Not to the letter, but with one meaning only, and so free to be accepted or refused: whole
    numbers written as 1.0 or -0, and space before the header.
    """
    loose: list[str] = []

    def number(text: str) -> Any:
        value = Decimal(text)  # which does not write 1e999999999 out
        if not text.isdigit():
            loose.append(text)
        return int(value) if abs(value) < 2**64 and value == value.to_integral_value() else None

    def stop(text: str) -> Any:
        raise ValueError(text)

    def size_of(entry: Any) -> tuple[Tensor, int, int]:
        fields = unique(entry)
        if fields.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError("fields")
        dtype, shape, (begin, end) = fields["dtype"], fields["shape"], fields["data_offsets"]
        numbers = [*shape, begin, end]
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError("numbers")
        sizes = {**ITEM, **dict.fromkeys(("F8_E4M3", "F8_E5M2", "I8"), 1), "I16": 2, "U16": 2}
        if end - begin != math.prod(shape) * (sizes | {"U32": 4, "U64": 8})[dtype]:
            raise ValueError("size")
        if math.prod(n for n in shape if n) >= 2**50:
            loose.append("an empty tensor, beyond what JavaScript's or NumPy's numbers hold")
        return Tensor(dtype, tuple(shape), data[begin:end]), begin, end

    def unique(pairs: Any) -> dict[str, Any]:
        if not isinstance(pairs, Object) or len({k for k, _ in pairs.pairs}) != len(pairs.pairs):
            raise ValueError("not an object, or a name twice")
        return dict(pairs.pairs)

    try:
        (length,) = struct.unpack_from("<Q", raw)
        if length > len(raw) - 8:
            return None
        text, data = raw[8 : 8 + length].decode("utf-8"), raw[8 + length :]
        whole = json.loads(
            text,
            object_pairs_hook=Object,
            parse_int=number,
            parse_float=number,
            parse_constant=stop,
        )
        content = unique(whole)
        metadata = unique(content.pop("__metadata__", Object([])))
        if not all(isinstance(v, str) for v in metadata.values()):
            return None
        found = {name: size_of(entry) for name, entry in content.items()}
    except (ValueError, TypeError, KeyError, struct.error, RecursionError, ArithmeticError):
        return None
    at = 0
    for _, begin, end in sorted(found.values(), key=lambda item: item[1:]):
        if begin != at:
            return None
        at = end
    if at != len(data):
        return None
    names = "".join([*content, *metadata, *metadata.values()])
    if any(0xD800 <= ord(c) < 0xE000 for c in names) or not text.startswith("{"):
        loose.append("half a character, or space before")
    return Reading(metadata, {name: item[0] for name, item in found.items()}, not loose)


# -- the readers under test ------------------------------------------------------------------------


def python_reads(raw: bytes, path: Path) -> dict[str, Any] | str:
    """Tensors by name (values, None where refused), or the refusal; other errors pass."""
    path.write_bytes(raw)
    try:
        header = safetensors_file.read_header(path)
    except CheckpointError as error:
        return str(error)
    tensors: dict[str, Any] = {}
    for name, entry in header.entries.items():
        try:
            tensors[name] = safetensors_file.read_floats(header, [name])[name]
        except CheckpointError:
            tensors[name] = None
        if tensors[name] is not None and tensors[name].shape != entry.shape:
            raise AssertionError(f"{name}: {tensors[name].shape} is not {entry.shape}")
    return {"metadata": header.metadata, "tensors": tensors}


class Page:
    """One of the page's readers in Node: "tensors" of a file, or what a run "describe"s."""

    def __init__(self, reader: str = "tensors") -> None:
        command = ["node", "--experimental-strip-types", "--no-warnings", str(READER), reader]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def asks(self, raw: bytes) -> Any:
        """Bytes in, a line out; RuntimeError where it crashed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(struct.pack("<I", len(raw)) + raw)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"Node ended with {self.process.wait()}")
        reply = json.loads(line)
        if "crash" in reply:
            raise RuntimeError(reply["crash"])
        return reply

    def reads(self, raw: bytes) -> dict[str, Any] | str:
        reply = self.asks(raw)
        if "refused" in reply:
            return str(reply["refused"])
        tensors = {
            name: None if data is None else np.frombuffer(bytes.fromhex(data), "<f4").reshape(shape)
            for name, shape, data in reply["tensors"]
        }
        return {"metadata": reply["metadata"], "tensors": tensors}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def judge(got: dict[str, Any] | str, truth: Reading | None, page: bool) -> str:
    """What is wrong with an answer; "" where nothing is."""
    if isinstance(got, str):
        return f"refuses a sound file: {got[:200]}" if truth and truth.strict else ""
    if truth is None:
        return f"accepts a bad file: {str(got)[:200]}"
    if got["metadata"] != truth.metadata:
        return f"reads the metadata {got['metadata']} for {truth.metadata}"
    if got["tensors"].keys() != truth.tensors.keys():
        return f"reads {sorted(got['tensors'])} for {sorted(truth.tensors)}"
    for name, tensor in truth.tensors.items():
        values, found = tensor.values(), got["tensors"][name]
        if page and values is not None:
            with np.errstate(over="ignore"):
                values = values.astype("<f4") if tensor.dtype in ("F32", "F64") else None
            values = values if values is not None and np.isfinite(values).all() else None
        if (found is None) != (values is None):
            if found is None and not truth.strict:
                continue
            return f"{'refuses' if found is None else 'accepts'} {name} {tensor.dtype}"
        same = values is None or (
            found.shape == values.shape
            and found.astype("<f8").tobytes() == values.astype("<f8").tobytes()
        )
        if not same:
            return f"reads {found} for {values} in {name}"
    return ""


def findings(seed: int, numbers: range, count: Counter[str] | None = None) -> Iterator[str]:
    """A line for every answer that is wrong."""
    page = Page()
    count = Counter() if count is None else count
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            raw = make(seed, number)
            truth = independent(raw)
            count["sound" if truth and truth.strict else "loose" if truth else "bad"] += 1
            for who in ("python", "page"):
                try:
                    got = (
                        python_reads(raw, Path(folder) / "model.safetensors")
                        if who == "python"
                        else page.reads(raw)
                    )
                    count[f"{who} {'refused' if isinstance(got, str) else 'accepted'}"] += 1
                    wrong = judge(got, truth, who == "page")
                except Exception:
                    wrong = f"crashes: {traceback.format_exc(limit=-3)[-700:]}"
                    if page.process.poll() is not None:
                        page = Page()
                if wrong:
                    yield f"seed {seed}, number {number}: {who} {wrong}"
    page.close()


def show(seed: int, number: int) -> str:
    return repr(make(seed, number)[:2000])


if __name__ == "__main__":
    fuzz_run.main("fuzz-checkpoints", findings, show)
