"""Text to token ids and back: a character vocabulary, bytes, or nothing.

In checkpoints a tokenizer is JSON: `{"kind":"char","vocab":"<characters sorted
by code point>"}`, `{"kind":"byte"}` or `{"kind":"none"}`. The char vocabulary
is sorted by code point, which is Python's order of `str`; JavaScript's default
sort is by UTF-16 unit and differs from U+10000 on.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .errors import TokenizerError

Ids = npt.NDArray[np.uint32]


class Tokenizer(Protocol):
    kind: str

    @property
    def vocab_size(self) -> int | None: ...
    def encode(self, text: str | bytes) -> Ids: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def decoder(self) -> Callable[[int], str]:
        """A function from the next id to the text that it completes ("" inside a character)."""

    def to_json(self) -> str: ...
    def default_prompt(self) -> Ids:
        """What an empty prompt stands for: a newline where there is one, else token 0."""


def _check_ids(ids: Iterable[int], vocab_size: int) -> npt.NDArray[np.int64]:
    array = np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids, dtype=np.int64)
    array = array.reshape(-1)
    outside = np.flatnonzero((array < 0) | (array >= vocab_size))
    if len(outside):
        at = int(outside[0])
        raise TokenizerError(
            f"token id {array[at]} at position {at} is outside the vocabulary of {vocab_size} "
            f"(ids 0 to {vocab_size - 1})"
        )
    return array


class CharTokenizer:
    """One token a character; the vocabulary is the corpus's own characters."""

    kind = "char"

    def __init__(self, vocab: str) -> None:
        if not vocab:
            raise TokenizerError("the character vocabulary is empty; it needs a character or more")
        if half_characters(vocab):
            raise TokenizerError(
                f"the character vocabulary holds half a surrogate pair: {vocab[:80]!r}"
            )
        points = _code_points(vocab)
        if np.any(points[1:] <= points[:-1]):
            at = int(np.flatnonzero(points[1:] <= points[:-1])[0])
            raise TokenizerError(
                f"the character vocabulary is not sorted by code point without repeats: "
                f"{vocab[at]!r} is followed by {vocab[at + 1]!r} at position {at + 1}"
            )
        self.vocab = vocab
        self.vocab_size: int = len(vocab)
        self._points = points

    @classmethod
    def train(cls, text: str) -> CharTokenizer:
        """The sorted set of the text's characters."""
        return cls("".join(sorted(set(text))))

    def encode(self, text: str | bytes) -> Ids:
        if isinstance(text, bytes):
            text = decode_utf8(text, "the text")
        points = _code_points(text)
        ids = np.minimum(np.searchsorted(self._points, points), self.vocab_size - 1)
        unknown = np.flatnonzero(self._points[ids] != points)
        if len(unknown):
            at = int(unknown[0])
            raise TokenizerError(
                f"the character {text[at]!r} (U+{ord(text[at]):04X}, position {at}) is not among "
                f"the {self.vocab_size} characters that this model knows: {self.vocab!r}"
            )
        return ids.astype(np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.vocab[i] for i in _check_ids(ids, self.vocab_size))

    def decoder(self) -> Callable[[int], str]:
        return lambda token: self.decode([token])

    def to_json(self) -> str:
        return json.dumps({"kind": "char", "vocab": self.vocab}, ensure_ascii=False)

    def default_prompt(self) -> Ids:
        return self.encode("\n") if "\n" in self.vocab else np.zeros(1, np.uint32)


class ByteTokenizer:
    """256 tokens: the bytes of the text's UTF-8."""

    kind = "byte"
    vocab_size = 256

    def encode(self, text: str | bytes) -> Ids:
        # surrogateescape: bytes of a command line that are not UTF-8 come back as they were
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        return np.frombuffer(raw, np.uint8).astype(np.uint32)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        return _check_ids(ids, 256).astype(np.uint8).tobytes()

    def decode(self, ids: Iterable[int]) -> str:
        """Bytes that are no UTF-8 become U+FFFD; `decode_bytes` keeps them."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decoder(self) -> Callable[[int], str]:
        incremental = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: incremental.decode(self.decode_bytes([token]))

    def to_json(self) -> str:
        return json.dumps({"kind": "byte"})

    def default_prompt(self) -> Ids:
        return self.encode("\n")


class NoTokenizer:
    """Of a model whose tokenizer we do not have, such as GPT-2's BPE: ids only."""

    kind = "none"
    vocab_size = None
    _REFUSAL = (
        "this model's tokenizer is not in the checkpoint (only char and byte are known here), so "
        "it takes and gives token ids: pass ids instead of text"
    )

    def encode(self, text: str | bytes) -> Ids:
        raise TokenizerError(f"cannot encode {text[:40]!r}: {self._REFUSAL}")

    def decode(self, ids: Iterable[int]) -> str:
        raise TokenizerError(f"cannot turn token ids into text: {self._REFUSAL}")

    def decoder(self) -> Callable[[int], str]:
        raise TokenizerError(f"cannot turn token ids into text: {self._REFUSAL}")

    def to_json(self) -> str:
        return json.dumps({"kind": "none"})

    def default_prompt(self) -> Ids:
        return np.zeros(1, np.uint32)


def tokenizer_from_json(text: str) -> Tokenizer:
    """The tokenizer that a checkpoint's metadata describes; TokenizerError when it is none."""
    try:
        spec: Any = json.loads(text)
    except ValueError as error:
        raise TokenizerError(
            f"the tokenizer's description is no JSON ({error}): {text[:80]!r}"
        ) from None
    kind = spec.get("kind") if isinstance(spec, dict) else None
    if kind == "char" and isinstance(spec.get("vocab"), str):
        return CharTokenizer(spec["vocab"])
    if kind == "byte":
        return ByteTokenizer()
    if kind == "none":
        return NoTokenizer()
    raise TokenizerError(
        f'the tokenizer\'s description is {text[:80]!r}; it must have "kind" char (with "vocab"), '
        f"byte or none"
    )


def decode_utf8(raw: bytes, what: str) -> str:
    """Strict UTF-8; the error names the byte, its position and the way out."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{what} is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start} "
            f"({error.reason}); convert it to UTF-8, or use the byte tokenizer"
        ) from None


def half_characters(text: str) -> bool:
    """Whether it holds halves of surrogate pairs: JSON may, UTF-8 cannot."""
    return any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def _code_points(text: str) -> npt.NDArray[np.uint32]:
    # surrogatepass: a stray half of a surrogate pair is then named as an unknown character
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
