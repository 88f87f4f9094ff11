#!/usr/bin/env python3
"""Builds tabgpt's wheel for Pyodide, and lays out all that the page /python serves.

browser/public/python/runtime/ gets the runtime, from the npm package; wheels/ gets
tabgpt's wheel, the pure Python packages that it asks for, and numpy's where it was
built; packages.json says what is there. numpy has no wheel for Pyodide on the package
index: `--numpy` compiles it from source, minutes of CPU, once; it stays under .tools.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from get_emscripten import version_of
from get_pyodide import CONSTRAINTS, ROOT, RUNTIME, Runtime, runtime

EMSCRIPTEN = ROOT / ".tools" / "emscripten" / "bin"
TOOLS = ROOT / ".tools" / "pyodide"
NUMPY = TOOLS / "numpy"
BUILD = ROOT / "build" / "pyodide"
OUTPUT = ROOT / "browser" / "public" / "python"
RUNTIME_FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
    "README.md",
)
PURE = ("rich", "typer==0.28.0")
"""What `tabgpt train` needs beside numpy, with what these need. Later typers need pydantic, whose
compiled part has no wheel for Pyodide."""
# Without BLAS: there is none for Pyodide on the package index, and numpy brings plain C code.
NUMPY_OPTIONS = ("-Dallow-noblas=true", "-Dblas=none", "-Dlapack=none")


def environment(target: Runtime) -> dict[str, str]:
    """For `pyodide build`: our Emscripten, and the cross-build environment."""
    compiler = EMSCRIPTEN / "em++"
    if not compiler.exists() or not (TOOLS / "venv").exists():
        sys.exit("pyodide: the tools are not set up; run this by `make pyodide`")
    version = version_of(compiler)
    found = ".".join(map(str, version or ()))
    if found != target.emscripten:
        print(f"pyodide: Emscripten {found} here, {target.emscripten} for the runtime")
    path = [TOOLS / "venv" / "bin", EMSCRIPTEN, Path(sys.executable).parent, os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(map(str, path)),
        "PYODIDE_XBUILDENV_PATH": str(TOOLS / "xbuildenv"),
        # What numpy's source asks for to be built comes at the versions that are tested, too.
        "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS),
        # Modules of a newer compiler load, which the tests show; the ABI does not promise it.
        "SKIP_EMSCRIPTEN_VERSION_CHECK": "1",
    }


def run(what: str, command: list[str | Path], log: Path, **options: object) -> None:
    """Its output goes to the log, whose end is shown when it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.STDOUT, check=False, **options
        )  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"pyodide: {what} failed, {log} has it all:\n{log.read_text()[-3000:]}")


def pyodide_build(source: str, output: Path, target: Runtime, *options: str) -> None:
    output.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [TOOLS / "venv" / "bin" / "pyodide", "build", source]
    command += ["-o", str(output), *options]
    log = BUILD / f"{output.name}.log"
    run(f"`pyodide build {source}`", command, log, cwd=ROOT, env=environment(target))


def build_tabgpt(target: Runtime) -> Path:
    """The wheel; its objects stay in build/pyodide/core for the next build."""
    output = BUILD / "tabgpt"
    shutil.rmtree(output, ignore_errors=True)
    pyodide_build(str(ROOT), output, target, "-n", "-x", "-Cbuild-dir=build/pyodide/core")
    return next(output.glob("tabgpt-*.whl"))


def build_numpy(target: Runtime) -> None:
    """From the package index's source, at the version that is tested; kept until that changes."""
    version = pinned("numpy")
    if not list(NUMPY.glob(f"numpy-{version}-*{target.abi}*.whl")):
        shutil.rmtree(NUMPY, ignore_errors=True)
        settings = [f"-Csetup-args={option}" for option in (cross_file(), *NUMPY_OPTIONS)]
        pyodide_build(f"numpy=={version}", NUMPY, target, *settings)


def cross_file() -> str:
    """pyodide-build gives it to a meson on PATH; numpy calls one that its source brings."""
    (found,) = TOOLS.glob("venv/lib/*/site-packages/pyodide_build/tools/emscripten.meson.cross")
    return f"--cross-file={found}"


def pinned(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    assert found is not None, f"{package} is not in {CONSTRAINTS.name}"
    return found[1]


def pure_wheels(target: Runtime) -> list[Path]:
    """Wheels of Python code alone, for any platform."""
    folder = BUILD / "pure"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    named = tuple(package.partition("=")[0] + "==" for package in PURE if "==" in package)
    pins = [pin for pin in CONSTRAINTS.read_text().splitlines() if not pin.startswith(named)]
    (folder / "constraints.txt").write_text("\n".join(pins))
    command: list[str | Path] = [sys.executable, "-m", "pip", "download", "--quiet"]
    command += ["--only-binary=:all:", "--platform", "any", "--python-version", target.minor]
    command += ["-c", folder / "constraints.txt", "-d", folder, *PURE]
    run("`pip download`", command, BUILD / "pure.log")
    return sorted(folder.glob("*.whl"))


def lay_out(target: Runtime, wheels: list[Path]) -> None:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    for folder in ("runtime", "wheels"):
        (OUTPUT / folder).mkdir(parents=True)
    for name in RUNTIME_FILES:
        shutil.copy(RUNTIME / name, OUTPUT / "runtime")
    for wheel in wheels:
        shutil.copy(wheel, OUTPUT / "wheels")
    packages = {wheel.name.split("-")[0]: wheel.name.split("-")[1] for wheel in wheels}
    content = {
        "pyodide": target.version,
        "python": target.python,
        "packages": packages,
        "wheels": [wheel.name for wheel in wheels],
    }
    (OUTPUT / "packages.json").write_text(json.dumps(content, indent=1) + "\n")
    size = sum(path.stat().st_size for path in OUTPUT.rglob("*") if path.is_file())
    numpy = f"numpy {packages['numpy']}" if "numpy" in packages else "without numpy"
    print(f"pyodide: {target.version}, {numpy}, {size / 2**20:.1f} MiB for the page")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build for Pyodide.")
    parser.add_argument("--numpy", action="store_true", help="build numpy too, minutes of CPU")
    options = parser.parse_args()
    target = runtime()
    wheel = build_tabgpt(target)
    if options.numpy:
        build_numpy(target)
    numpy = sorted(NUMPY.glob(f"numpy-{pinned('numpy')}-*.whl"))
    lay_out(target, [*numpy, *pure_wheels(target), wheel])


if __name__ == "__main__":
    main()
