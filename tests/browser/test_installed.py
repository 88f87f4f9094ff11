"""What `make dist` builds, with nothing but Python around: it installs, and serves the lab."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_browser import SITE, lab_of
from playground import TINY, Playground
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
NOTHING_ELSE = {"PATH": "/nowhere", "HOME": "/nowhere"}
"""No Node, no compiler, no Emscripten, no setting of this checkout."""


def built(pattern: str) -> Path:
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"dist/ holds {len(found)} of {pattern}: run `make dist`"
    return found[0]


@pytest.fixture(scope="module")
def tabgpt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command in a virtual environment that has the wheel and what it asks for."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    # this Python's pip: a fresh one would only cost the time to unpack it
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--quiet"]
    wheel = built("tabgpt-*.whl")
    subprocess.run([*pip, "-c", ROOT / ".constraints.txt", wheel], check=True)
    return str(venv / "bin" / "tabgpt")


def run(tabgpt: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [tabgpt, *arguments], cwd=folder, env=NOTHING_ELSE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_the_wheel_holds_the_site_the_shaders_and_the_presets() -> None:
    with zipfile.ZipFile(built("tabgpt-*.whl")) as wheel:
        names = set(wheel.namelist())
        for path in files(SITE):
            assert wheel.read(f"tabgpt/site/{path.relative_to(SITE)}") == path.read_bytes()
        for shader in (ROOT / "shaders").glob("*.wgsl"):
            assert f"tabgpt/shaders/{shader.name}" in names
        assert "tabgpt/presets.json" in names
        assert not [name for name in names if not name.startswith(("tabgpt/", "tabgpt-"))]


def test_the_source_package_holds_what_its_build_reads() -> None:
    listed = ["git", "ls-files", "cpp", "reference", "shaders", "pyproject.toml", "README.md"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    needed = set(tracked.stdout.split()) | {str(path.relative_to(ROOT)) for path in files(SITE)}
    with tarfile.open(built("tabgpt-*.tar.gz")) as source:
        held = {name.partition("/")[2] for name in source.getnames()}
    assert needed - held == set()
    strange = {name.partition("/")[0] for name in held} & {"bench", "tests", "build", ".github"}
    assert strange == set()


def test_an_installed_wheel_serves_a_lab_that_trains(tabgpt: str, page: Page) -> None:
    with lab_of([tabgpt], environment=NOTHING_ELSE) as address:
        playground = Playground(page, address).open()
        playground.train(**TINY, steps=20)
        assert page.evaluate("crossOriginIsolated")


def test_an_installed_wheel_trains_in_python_too(tabgpt: str, tmp_path: Path) -> None:
    """On the core and the default text that the wheel holds."""
    sizes = ["--n-layer", "1", "--n-head", "2", "--d-model", "16", "--ctx", "16", "--batch", "4"]
    output = run(tabgpt, tmp_path, "train", *sizes, "--steps", "5", "--out", "run")
    assert "backend native" in output and "Finished: 5 steps" in output
    assert run(tabgpt, tmp_path, "sample", "run", "--max-new-tokens", "5")
