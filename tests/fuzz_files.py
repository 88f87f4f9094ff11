"""Makes safetensors files and damages them: what fuzz_checkpoints.py lets the readers read.

Each input is a sound file with up to three mistakes, decided by seed and number alone.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ITEM = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
FLOATS = ("F32", "F64", "F16", "BF16")
Pairs = list[tuple[str, Any]]


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
