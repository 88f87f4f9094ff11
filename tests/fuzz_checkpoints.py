#!/usr/bin/env python3
"""Damaged safetensors files, read by Python's reader, by the page's and by a third one here.

    python tests/fuzz_checkpoints.py --count 100000 --seed 1

Each input is a sound file with up to three mistakes, decided by seed and number alone. A reader
may refuse it by its own error (CheckpointError, TabgptError), or must give exactly the tensors
that the third reader finds. What the third reader finds sound, both must accept. Prints each
finding with its number; --only N shows one input again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from tabgpt import safetensors_file
from tabgpt.errors import CheckpointError

ROOT = Path(__file__).resolve().parent.parent
READER = ROOT / "tests/fuzz_read.ts"
ITEM = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
FLOATS = ("F32", "F64", "F16", "BF16")
Pairs = list[tuple[str, Any]]


# -- making inputs ---------------------------------------------------------------------------------


class Raw(str):
    """JSON text that goes into the header as it is."""


def write(value: Any) -> str:
    """JSON, with objects as lists of pairs in `Object`, so that a name can come twice."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, Object):
        return "{" + ",".join(f"{write(k)}:{write(v)}" for k, v in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


@dataclass
class Object:
    pairs: Pairs

    def get(self, key: str) -> Any:
        return next((v for k, v in self.pairs if k == key), None)

    def put(self, key: str, value: Any) -> None:
        self.pairs = [(k, value if k == key else v) for k, v in self.pairs]


@dataclass
class File:
    """A file before it becomes bytes; the mistakes change it."""

    header: Object
    data: bytearray
    length: Callable[[int], int] = lambda n: n
    edit: list[Callable[[bytes], bytes]] = field(default_factory=list)  # of the header's text
    cut: list[Callable[[bytes], bytes]] = field(default_factory=list)  # of the whole file

    def entries(self) -> list[Object]:
        return [v for _, v in self.header.pairs if isinstance(v, Object) and v.get("dtype")]

    def bytes(self) -> bytes:
        text = write(self.header).encode("utf-8", "surrogatepass")
        for change in self.edit:
            text = change(text)
        length = self.length(len(text)) % 2**64
        raw = struct.pack("<Q", length) + text + bytes(self.data)
        for change in self.cut:
            raw = change(raw)
        return raw


def sound(rng: random.Random) -> File:
    pairs: Pairs = []
    data = bytearray()
    for number in range(rng.randrange(6)):
        dtype = rng.choice([*FLOATS, *FLOATS, *ITEM])
        shape = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(4))]
        size = math.prod(shape) * ITEM[dtype]
        values = np.frombuffer(rng.randbytes(math.prod(shape) * 8), np.int64) / 2.0**62
        with np.errstate(over="ignore"):
            if dtype in ("F32", "F64", "F16"):
                block = values.astype({"F32": "<f4", "F64": "<f8", "F16": "<f2"}[dtype]).tobytes()
            elif dtype == "BF16":
                block = (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
            else:
                block = rng.randbytes(size)
        entry = Object([("dtype", dtype), ("shape", shape)])
        entry.pairs.append(("data_offsets", [len(data), len(data) + size]))
        pairs.append((rng.choice(["w", "transformer.wte.weight", "é", "h.0"]) + str(number), entry))
        data += block
    rng.shuffle(pairs)
    if rng.random() < 0.5:
        metadata = Object([("format", "pt"), ("step", str(rng.randrange(99)))])
        pairs.insert(rng.randint(0, len(pairs)), ("__metadata__", metadata))
    file = File(Object(pairs), data)
    if rng.random() < 0.5:
        file.edit.append(lambda text: text.ljust(-(-len(text) // 8) * 8))
    return file


NUMBERS = [0, 1, 2, 4, -1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, 2**63, 2**64, 10**400]
ODD = [*NUMBERS, None, True, "4", [], [[1]], Object([]), "", "F33", "f32", -0.5]
ODD += [Raw(t) for t in ("1.0", "1e0", "-0", "1e400", "NaN", "Infinity", "01", "9" * 5000)]


def deep(rng: random.Random) -> Raw:
    n = rng.choice([5, 100, 500, 900, 980, 990, 995, 1000, 2000, 100_000])
    if rng.random() < 0.5:
        return Raw("[" * n + "]" * n)
    return Raw('{"a":' * n + "1" + "}" * n)


def odd(rng: random.Random) -> Any:
    return deep(rng) if rng.random() < 0.05 else rng.choice(ODD)


def damage(rng: random.Random, file: File) -> None:
    """One mistake."""
    entries = file.entries()
    entry = rng.choice(entries) if entries else None
    n_data = len(file.data)

    def offsets() -> list[int]:
        found = entry.get("data_offsets") if entry else None
        sound = isinstance(found, list) and list(map(type, found)) == [int, int]
        return list(found) if sound else [0, 0]

    def shift() -> None:
        begin, end = offsets()
        by = rng.choice([-8, -4, -1, 1, 4, 8, n_data])
        which = rng.randrange(3)
        values = [begin + by * (which != 1), end + by * (which != 0)]
        entry and entry.put("data_offsets", values)

    def whole_offsets() -> None:
        choices = [odd(rng), [odd(rng)], [odd(rng), odd(rng)], offsets()[::-1], [*offsets(), 0]]
        entry and entry.put("data_offsets", rng.choice(choices))

    def shape() -> None:
        old = entry.get("shape") if entry else None
        old = list(old) if isinstance(old, list) else []
        huge = [[10**1000] * 10, [2**32, 2**32], [2**63, 2, 0], [2**53, 2**53, 0]]
        new = [odd(rng), old[::-1], [*old, 1], [*old, odd(rng)], [odd(rng)], *huge]
        new += [[math.prod(n for n in old if isinstance(n, int))]] if old else []
        entry and entry.put("shape", rng.choice(new))

    def dtype() -> None:
        entry and entry.put("dtype", rng.choice([odd(rng), *ITEM, "F8_E4M3", "F32 "]))

    def both_shape_and_offsets() -> None:
        """A lie that fits itself: sizes that agree, up to far beyond the file."""
        rows = rng.choice([1, 7, 2**30, 2**50, 2**61])
        begin = offsets()[0]
        if entry:
            entry.put("shape", [rows])
            entry.put("data_offsets", [begin, begin + rows * ITEM.get(str(entry.get("dtype")), 4)])

    def twice() -> None:
        if not file.header.pairs:
            return
        key, value = rng.choice(file.header.pairs)
        again = rng.choice([value, Object([]), odd(rng)])
        file.header.pairs.insert(rng.randrange(len(file.header.pairs) + 1), (key, again))

    def field_twice() -> None:
        if entry:
            key, value = rng.choice(entry.pairs)
            entry.pairs.insert(rng.randrange(4), (key, rng.choice([value, odd(rng)])))

    def fields() -> None:
        if entry and rng.random() < 0.5:
            entry.pairs.pop(rng.randrange(len(entry.pairs)))
        elif entry:
            entry.pairs.append((rng.choice(["extra", "Dtype", "__proto__", ""]), odd(rng)))

    def no_entry() -> None:
        if file.header.pairs:
            at = rng.randrange(len(file.header.pairs))
            file.header.pairs[at] = (file.header.pairs[at][0], odd(rng))

    def name() -> None:
        if file.header.pairs:
            at = rng.randrange(len(file.header.pairs))
            names = ["", "__proto__", "constructor", "0", "a\0b", "n" * 70_000, "__metadata__"]
            new = rng.choice([*names, Raw('"\\ud800"'), Raw('"\\u0077"'), Raw('"a\nb"')])
            file.header.pairs[at] = (new, file.header.pairs[at][1])

    def metadata() -> None:
        items: Pairs = [("a", "b"), ("a", rng.choice(["b", "c"])), ("n", odd(rng))]
        some = Object(rng.sample(items, rng.randrange(4)))
        value = rng.choice([some, odd(rng), [], ["a"], [["a", "b"]], None])
        file.header.pairs.append(("__metadata__", value))

    def value() -> None:
        if n_data >= 8:
            at = rng.randrange(n_data // 8) * 8
            fill = [b"\0\0\xc0\x7f", b"\0\0\x80\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\1\2\3\4"]
            file.data[at : at + 4] = rng.choice(fill)
            if rng.random() < 0.5:
                file.data[at + 4 : at + 8] = rng.choice([*fill, b"\0\0\xf0\x7f"])

    def flip() -> None:
        def change(text: bytes) -> bytes:
            if not text:
                return text
            at = rng.randrange(len(text))
            pick = bytes([rng.choice(b'{}[]":,0129-+.eE \\\t\n\0\xff\x7fntf')])
            return text[:at] + rng.choice([pick, b"", pick + text[at : at + 1]]) + text[at + 1 :]

        file.edit.append(change)

    def around() -> None:
        before = rng.choice([b"", b" ", b"\n", b"\xef\xbb\xbf", b"[", b"\0", b"{}"])
        after = rng.choice([b"", b" ", b"\t\r\n", b"\0", b"}", b"x", b"//"])
        file.edit.append(lambda text: before + text + after)

    def replaced() -> None:
        whole = [b"", b"null", b"[]", b"1", b'"a"', b"{}", b"{" * 64, b"\xff" * 9, b"{}{}"]
        text = rng.choice([*whole, deep(rng).encode()])
        file.edit.append(lambda _: text)

    def header_length() -> None:
        change = rng.choice([-9, -8, -1, 1, 8, 2**31, 2**53, 2**63, -(2**63), 100_000_001])
        absolute = rng.random() < 0.5
        file.length = lambda n: change if absolute else n + change

    def cut() -> None:
        keep = rng.random()
        few = rng.choice([0, 1, 7, 8, 9, -1, -4, -8])
        file.cut.append(lambda raw: raw[: few if keep < 0.5 else int(len(raw) * rng.random())])

    def more() -> None:
        tail = rng.randbytes(rng.choice([1, 4, 8, 100]))
        file.cut.append(lambda raw: raw + tail)

    kinds = [shift, whole_offsets, shape, dtype, both_shape_and_offsets, twice, field_twice, fields]
    kinds += [no_entry, name, metadata, value, value, flip, flip, around, replaced, header_length]
    rng.choice([*kinds, cut, more])()


def make(seed: int, number: int) -> bytes:
    rng = random.Random(f"{seed}:{number}")
    file = sound(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        damage(rng, file)
    return file.bytes()


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
            found = np.frombuffer(self.data, {"F": "<f"}["F"] + str(ITEM[self.dtype]))
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
            *[text],
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
    """The page's reader in Node: one file in, one line out."""

    def __init__(self) -> None:
        command = ["node", "--experimental-strip-types", "--no-warnings", str(READER)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def reads(self, raw: bytes) -> dict[str, Any] | str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(struct.pack("<I", len(raw)) + raw)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"Node ended with {self.process.wait()}")
        reply = json.loads(line)
        if "crash" in reply:
            raise RuntimeError(reply["crash"])
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the two readers of safetensors files.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one number: shows the input too")
    options = parser.parse_args()
    numbers = range(options.count)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
        print(make(options.seed, options.only)[:2000])
    count: Counter[str] = Counter()
    found = 0
    for line in findings(options.seed, numbers, count):
        found += 1
        print(line, flush=True)
    print(f"{len(numbers)} inputs, {found} findings; {dict(count)}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
