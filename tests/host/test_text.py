"""Tokenizers and corpora: round trips, and texts and characters that are refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tabgpt import corpus as corpora
from tabgpt.corpus import make_corpus, read_corpus
from tabgpt.errors import CorpusError, TabgptError, TokenizerError
from tabgpt.tokenizer import ByteTokenizer, CharTokenizer, NoTokenizer, tokenizer_from_json

TEXTS = [
    "ROMEO:\n",
    "naïve café",
    "🦊🏳️‍🌈 emoji\u200d",
    "\ufffd\uffff\U0001f98a\U0010ffff",
    "\r\n\t\0",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trips(text: str) -> None:
    for tokenizer in (CharTokenizer.train(text), ByteTokenizer()):
        again = tokenizer_from_json(tokenizer.to_json())
        ids = again.encode(text)
        assert ids.dtype == np.uint32
        assert again.decode(ids) == text
        decode = again.decoder()
        assert "".join(decode(int(i)) for i in ids) == text


def test_all_bytes_round_trip() -> None:
    tokenizer, every = ByteTokenizer(), bytes(range(256))
    assert tokenizer.decode_bytes(tokenizer.encode(every)) == every
    # a command line gives bytes that are no UTF-8 as surrogates
    assert (
        tokenizer.decode_bytes(tokenizer.encode(every.decode("utf-8", "surrogateescape"))) == every
    )


def test_the_vocabulary_is_sorted_by_code_point() -> None:
    """U+FFFF sorts before U+1F98A, although its UTF-16 unit is larger than a surrogate's."""
    assert CharTokenizer.train("🦊\uffffba").vocab == "ab\uffff🦊"


@pytest.mark.parametrize("character", ["z", "🦊", "\n", "\ud83e"])
def test_an_unknown_character_is_named(character: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        CharTokenizer("abc").encode("ab" + character)
    assert f"U+{ord(character):04X}, position 2" in str(caught.value)


@pytest.mark.parametrize("ids", [[0, 3], [-1]])
def test_an_id_outside_the_vocabulary_is_named(ids: list[int]) -> None:
    with pytest.raises(TokenizerError, match=f"token id {ids[-1]} at position {len(ids) - 1}"):
        CharTokenizer("abc").decode(ids)


def test_without_a_tokenizer_text_is_refused() -> None:
    for ask in (lambda t: t.encode("abc"), lambda t: t.decode([1]), lambda t: t.decoder()):
        with pytest.raises(TokenizerError, match="pass ids instead of text"):
            ask(NoTokenizer())


def test_a_corpus_keeps_newlines_and_loses_the_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    corpus = read_corpus(file)
    assert corpus.raw == b"one\r\ntwo\n"
    assert corpus.sha256 == hashlib.sha256(corpus.raw).hexdigest()
    assert corpus.path == str(file)
    tokenizer, ids = corpus.tokenize("char")
    assert tokenizer.decode(ids) == "one\r\ntwo\n"
    assert list(corpus.tokenize("byte")[1]) == list(corpus.raw)


def test_bad_corpora_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no corpus file"):
        read_corpus(tmp_path / "nowhere.txt")
    with pytest.raises(CorpusError, match="cannot read the corpus"):
        read_corpus(tmp_path)
    for empty in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(CorpusError, match="the corpus x is empty"):
            make_corpus(empty, "x")
    with pytest.raises(TabgptError, match=r"byte 0xff at offset 2.*use the byte tokenizer"):
        make_corpus(b"ab\xff", "x").tokenize("char")
    assert len(make_corpus(b"ab\xff", "x").tokenize("byte")[1]) == 3


def test_the_default_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    corpus = read_corpus(corpora.default_corpus())
    assert corpus.sha256 == corpora.SHAKESPEARE_SHA256
    text = corpus.raw.decode("ascii")
    assert 1_050_000 < len(text) < 1_200_000
    assert text.startswith("THE PROLOGUE\n") and text.count("\nROMEO:\n") > 100
    for front_matter in ("Gutenberg", "by William Shakespeare", "PERSONS REPRESENTED", "\r"):
        assert front_matter not in text
    assert corpora.known_corpus(corpus.sha256) == corpora.default_corpus()

    # a cached file that has changed is not believed
    monkeypatch.setenv("TABGPT_CACHE", str(tmp_path))
    (tmp_path / "shakespeare.txt").write_text("forged")
    monkeypatch.setattr(corpora, "_build_shakespeare", lambda: corpus.raw)
    assert corpora.default_corpus().read_bytes() == corpus.raw
    (tmp_path / "shakespeare.txt").write_text("forged")
    monkeypatch.setattr(corpora, "_build_shakespeare", lambda: b"another text")
    with pytest.raises(CorpusError, match=r"not 051cd62b.*nothing was kept"):
        corpora.default_corpus()


def test_tinyshakespeare_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TABGPT_CACHE", str(tmp_path))
    monkeypatch.setattr(corpora, "TINYSHAKESPEARE_URL", "http://127.0.0.1:9/input.txt")
    with pytest.raises(CorpusError, match=r"cannot download.*127\.0\.0\.1:9.*--corpus"):
        corpora.tinyshakespeare()


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TABGPT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(corpora, "_download_tinyshakespeare", lambda: b"")
    monkeypatch.setattr(corpora, "TINYSHAKESPEARE_SHA256", hashlib.sha256(b"").hexdigest())
    with pytest.raises(CorpusError, match=r"cannot keep .*; set TABGPT_CACHE to a folder"):
        corpora.tinyshakespeare()


def test_a_download_is_kept_only_if_its_hash_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TABGPT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "input.txt").write_bytes(b"First Citizen:\n")
    monkeypatch.setattr(corpora, "TINYSHAKESPEARE_URL", (tmp_path / "input.txt").as_uri())
    with pytest.raises(CorpusError, match=r"not 86c4e6aa.*nothing was kept"):
        corpora.tinyshakespeare()
    sha256 = hashlib.sha256(b"First Citizen:\n").hexdigest()
    monkeypatch.setattr(corpora, "TINYSHAKESPEARE_SHA256", sha256)
    assert corpora.tinyshakespeare() == tmp_path / "cache" / "tinyshakespeare.txt"
    (tmp_path / "input.txt").unlink()
    assert read_corpus(corpora.tinyshakespeare()).raw == b"First Citizen:\n"


def test_a_play_is_cut_to_its_text() -> None:
    front = "A PLAY\n\nby X\n\nPERSONS\n\nROMEO.\n\n\n"
    text = (
        "ACT I.\n\nScene I. A street.\n\nRomeo.\nAy me!  \n\n\n\nLADY M.\nO.\n\n[Exit.]\n\nTHE END"
    )
    assert corpora.cut_play(front + text, "ACT I.") == (
        "ACT I.\n\nScene I. A street.\n\nROMEO:\nAy me!\n\nLADY M:\nO.\n\n[Exit.]\n\n"
    )
