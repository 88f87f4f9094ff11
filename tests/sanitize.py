#!/usr/bin/env python3
"""The parity tests on a native core that was built with sanitizers; any report is a failure.

    python tests/sanitize.py asan         addresses: out of bounds, use after free
    python tests/sanitize.py ubsan        undefined behaviour
    python tests/sanitize.py tsan         data races of the thread pool
    python tests/sanitize.py asan+ubsan   both in one build, which the suite runs with --quick
    python tests/sanitize.py asan+ubsan --fuzz 100000 --seed 1    tests/fuzz_c_api.cpp instead
    CXX=clang++ python tests/sanitize.py libfuzzer --fuzz 100000  the same, led by coverage

A copy of the tree (tests/mutations.py) is built under build/sanitize/NAME and kept. Python
itself is not instrumented, so the sanitizer's library is preloaded and leaks, of which Python
has its own, are not looked for in the parity tests: the fuzzer is all C++ and looks for them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from mutations import Copy  # noqa: E402
from remote import NATIVE  # noqa: E402

LIMIT_S = 1800
"""A test run that is longer hangs: on quiet cores it takes under a minute."""
PARITY = ["kernels", "step", "trajectory", "random", "refusals", "determinism"]
THREADED = ["step", "trajectory", "determinism"]


@dataclass(frozen=True)
class Sanitizer:
    flags: str  # of -fsanitize=
    libraries: tuple[str, ...]
    options: dict[str, str]
    parity: list[str]


_ASAN = "detect_leaks=0:abort_on_error=1:strict_string_checks=1:detect_stack_use_after_return=1"
SANITIZERS = {
    "asan": Sanitizer("address", ("asan",), {"ASAN_OPTIONS": _ASAN}, PARITY),
    "ubsan": Sanitizer("undefined", ("ubsan",), {"UBSAN_OPTIONS": "print_stacktrace=1"}, PARITY),
    "asan+ubsan": Sanitizer(
        "address,undefined",
        ("asan", "ubsan"),
        {"ASAN_OPTIONS": _ASAN, "UBSAN_OPTIONS": "print_stacktrace=1"},
        PARITY,
    ),
    "libfuzzer": Sanitizer(
        "address,undefined,fuzzer-no-link",
        (),
        {"ASAN_OPTIONS": _ASAN, "UBSAN_OPTIONS": "print_stacktrace=1"},
        [],
    ),
    "tsan": Sanitizer("thread", ("tsan",), {"TSAN_OPTIONS": "halt_on_error=1"}, THREADED),
}


def _library(name: str) -> str:
    """The compiler's own, so that build and preload agree."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, f"-print-file-name=lib{name}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def prepare(name: str, target: str = "_core") -> Copy:
    """The copy, with the target built; SystemExit where it does not compile."""
    sanitizer = SANITIZERS[name]
    folder = ROOT / "build/sanitize" / name
    # libstdc++ too, or the sanitizer does not find where exceptions are thrown.
    libraries = [_library(library) for library in (*sanitizer.libraries, "stdc++")]
    logs = {key: f"{value}:log_path={folder}/log" for key, value in sanitizer.options.items()}
    copy = Copy(
        folder,
        [
            f"-DTABGPT_SANITIZE={sanitizer.flags}",
            # Not Release, whose -O3 takes minutes; sanitizers bring warnings that are none.
            *["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1", "-DTABGPT_WERROR=OFF"],
        ],
        {**logs, "LD_PRELOAD": ":".join(libraries)},
    )
    if not copy.build(target):
        sys.exit(f"sanitize: {target} does not compile; run ninja -C {folder}/build {target}")
    return copy


def run(name: str, quick: bool = False) -> str:
    """What went wrong, with the sanitizers' reports; "" where the tests ran clean."""
    copy = prepare(name)
    for log in copy.folder.glob("log.*"):
        log.unlink()
    files = [f"tests/parity/test_{level}.py" for level in SANITIZERS[name].parity]
    # The builds for WASM are not in the copy; some tests name them without the prefix.
    chosen = NATIVE[0] if quick else "not wasm and not scalar and not simd and not relaxed"
    tests = [*files, "tests/native/test_binding.py", "-k", chosen]
    test, why, _ = copy.test(tests, LIMIT_S)
    reports = [log.read_text(errors="replace") for log in sorted(copy.folder.glob("log.*"))]
    return "\n".join([f"{test}: {why}".strip(": "), *reports]).strip()


def fuzz(name: str, count: int, seed: int = 1) -> tuple[str, bool]:
    """What the fuzzer of the C ABI printed, and whether it found nothing."""
    folder = prepare(name, "fuzz_c_api").folder
    arguments = [str(count), str(seed)]
    if name == "libfuzzer":
        (folder / "corpus").mkdir(exist_ok=True)  # grows from run to run
        flags = [f"-runs={count}", f"-seed={seed}", "-max_len=1000", "-len_control=0"]
        arguments = [*flags, f"-artifact_prefix={folder}/", str(folder / "corpus")]
    options = dict(SANITIZERS[name].options)
    if "ASAN_OPTIONS" in options:
        # Allocations over 64 MB fail, so that what a host hears then is tried too.
        more = "detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=64"
        options["ASAN_OPTIONS"] += f":{more}"  # the last one counts
    done = subprocess.run(
        [folder / "build/fuzz_c_api", *arguments],
        env=os.environ | options,
        capture_output=True,
        text=True,
        errors="replace",
    )
    return done.stdout + done.stderr, done.returncode == 0


def tests_run(name: str) -> int:
    """How many tests the last parity run had; 0 where it broke off."""
    report = ROOT / "build/sanitize" / name / "report.xml"
    return sum(1 for _ in ElementTree.parse(report).iter("testcase")) if report.exists() else 0


def record_run(options: argparse.Namespace, result: dict[str, Any], clean: bool) -> None:
    """bench/records/sanitize-NAME.json, or fuzz-c-api-NAME.json: what ran, and whether clean."""
    import record

    what = f"{'fuzz-c-api' if options.fuzz else 'sanitize'}-{options.sanitizer.replace('+', '-')}"
    command = f"python tests/sanitize.py {' '.join(sys.argv[1:])}"
    why = "no sanitizer reported anything" if clean else "a sanitizer reported something"
    print(record.write(what, command, [result], ok=clean, why=why))


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the parity tests under a sanitizer.")
    parser.add_argument("sanitizer", choices=SANITIZERS)
    parser.add_argument("--quick", action="store_true", help="one ISA only, as in the suite")
    parser.add_argument("--fuzz", type=int, metavar="COUNT", help="fuzz the C ABI instead")
    parser.add_argument("--seed", type=int, default=1, help="of --fuzz")
    parser.add_argument("--record", action="store_true", help="write bench/records/")
    options = parser.parse_args()
    if options.sanitizer == "libfuzzer" and not options.fuzz:
        parser.error("libfuzzer needs --fuzz COUNT, and CXX=clang++")
    began = time.monotonic()
    result: dict[str, Any] = {"sanitizer": options.sanitizer}
    if options.fuzz:
        text, clean = fuzz(options.sanitizer, options.fuzz, options.seed)
        print(text)
        result |= {"inputs": options.fuzz, "seed": options.seed}
    else:
        wrong = run(options.sanitizer, options.quick)
        print(wrong or f"sanitize: {options.sanitizer} ran clean")
        clean = not wrong
        result |= {"tests": tests_run(options.sanitizer)}
    if options.record:
        record_run(options, result | {"seconds": round(time.monotonic() - began)}, clean)
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
