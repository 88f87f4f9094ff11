"""What is installed, here and beside Pyodide's tools, is at the versions of .constraints.txt."""

from __future__ import annotations

import re
import sysconfig
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools" / "pyodide" / "venv"
UNPINNED = {"pip", "setuptools", "tabgpt"}
"""What a virtual environment begins with, and ourselves."""


def plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    lines = (ROOT / ".constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {plain(name): version for name, version in pairs}


def strays(installed: list[Distribution], pins: dict[str, str]) -> list[str]:
    """Packages without a pin or at another version; local versions as "+cpu" do not count."""
    assert installed
    found = {plain(each.metadata["Name"]): each.version.partition("+")[0] for each in installed}
    return [
        f"{name} {version}, pinned {pins.get(name)}"
        for name, version in sorted(found.items())
        if name not in UNPINNED and pins.get(name) != version
    ]


def test_here(pins: dict[str, str]) -> None:
    """By folder: setuptools, once imported, puts copies of its own on the path."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    assert strays(list(distributions(path=sorted(folders))), pins) == []


def test_beside_pyodides_tools(pins: dict[str, str]) -> None:
    """pyodide-build and all that it depends on: a new set-up resolves to the same."""
    folders = [str(folder) for folder in TOOLS.glob("lib/python3.*/site-packages")]
    assert strays(list(distributions(path=folders)), pins) == []


def test_numpys_build(pins: dict[str, str]) -> None:
    """Its source asks for these by a lower bound only; they build in one of their own."""
    assert {"meson-python", "meson", "cython", "pyproject-metadata", "ninja"} <= pins.keys()
