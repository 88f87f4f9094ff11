#!/usr/bin/env python3
"""Builds the core for WebAssembly: every variant of variants.json, from cpp/'s sources.

Writes browser/public/wasm/<variant>/tabgpt.mjs and tabgpt.wasm. What is exported is
what cpp/include/tabgpt/c_api.h declares. Only what changed is built again. Two variants are
built at a time, so that one compiles while the other is configured or linked, which keep
one core busy. The first of a kind also builds Emscripten's own libraries into its cache;
the other waits for its lock.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "cpp" / "include" / "tabgpt" / "c_api.h"
OUTPUT = ROOT / "browser" / "public" / "wasm"
BUILD = ROOT / "build" / "wasm"
EMSCRIPTEN = ROOT / ".tools" / "emscripten" / "bin"
AT_A_TIME = 2


@dataclass(frozen=True)
class Variant:
    name: str
    simd: str
    threads: bool
    memory64: bool

    def options(self, exports: Path) -> list[str]:
        return [
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DTABGPT_WASM_SIMD={self.simd}",
            f"-DTABGPT_WASM_MEMORY64={int(self.memory64)}",
            f"-DTABGPT_THREADS={int(self.threads)}",
            f"-DTABGPT_WASM_EXPORTS={exports}",
            f"-DTABGPT_WASM_OUTPUT={OUTPUT / self.name}",
        ]


def variants() -> list[Variant]:
    listed = json.loads((ROOT / "wasm" / "variants.json").read_text())["variants"]
    return [Variant(**entry) for entry in listed]


def exported_functions(header: str) -> list[str]:
    """Every function that the C header declares, comments left out."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    return list(dict.fromkeys(re.findall(r"\b(tabgpt_\w+)\s*\(", code)))


def write_if_changed(path: Path, text: str) -> bool:
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def tool(name: str) -> str:
    """cmake or ninja: this interpreter's environment first, then PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        sys.exit(f"wasm: {name} is not installed; run this by `make wasm`")
    return found


def build(variant: Variant, exports: Path, compiler_id: str, jobs: int) -> None:
    folder = BUILD / variant.name
    configure = [str(EMSCRIPTEN / "emcmake"), tool("cmake"), "-S", str(ROOT / "wasm")]
    configure += ["-B", str(folder), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    configure += variant.options(exports)
    # A different compiler or other options start afresh; ninja sees everything else.
    wanted = "\n".join([compiler_id, *configure]) + "\n"
    stamp = folder / "configured.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        done = subprocess.run(configure, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"wasm: {variant.name}: CMake failed\n{done.stdout}{done.stderr}")
        stamp.write_text(wanted)
    ninja = [tool("ninja"), "-C", str(folder), "--quiet", "-j", str(jobs), "tabgpt"]
    if failed := subprocess.run(ninja, check=False).returncode:
        sys.exit(f"wasm: {variant.name}: ninja failed ({failed})")


def report(variant: Variant, exports: Path, compiler_id: str, jobs: int) -> str:
    """Builds it; what there is to say of it."""
    started = time.monotonic()
    build(variant, exports, compiler_id, jobs)
    size = (OUTPUT / variant.name / "tabgpt.wasm").stat().st_size
    return f"wasm: {variant.name}, {size / 1024:.0f} KiB, {time.monotonic() - started:.1f} s"


def main() -> None:
    every = variants()
    parser = argparse.ArgumentParser(description="Build the core for WebAssembly.")
    parser.add_argument("only", nargs="*", help=", ".join(v.name for v in every))
    parser.add_argument("-j", "--jobs", type=int, help="compilations at a time, of each")
    options = parser.parse_args()
    names = options.only or [v.name for v in every]
    if unknown := set(names) - {v.name for v in every}:
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    if not (EMSCRIPTEN / "em++").exists():
        sys.exit("wasm: Emscripten is not set up; run `make emscripten`")
    compiler_id = subprocess.run(
        [EMSCRIPTEN / "em++", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    exports = BUILD / "exports.txt"
    write_if_changed(exports, "".join(f"_{f}\n" for f in exported_functions(HEADER.read_text())))
    jobs = options.jobs or (os.cpu_count() or 1)
    chosen = [variant for variant in every if variant.name in names]
    # Each may use every core: what the other leaves, while it links.
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        futures = [pool.submit(report, v, exports, compiler_id, jobs) for v in chosen]
        try:
            for future in futures:
                print(future.result(), flush=True)
        finally:  # none is begun after one that failed
            pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
