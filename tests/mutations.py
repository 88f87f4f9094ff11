#!/usr/bin/env python3
"""Are the tests worth their time? One-term mistakes in a copy of the tree, and which test notices.

    python tests/mutations.py                          all of tests/mutants.py; writes mutations.md
    python tests/mutations.py --kind gpu               of one kind; other lines stay
    python tests/mutations.py --file tile.wgsl         in the files that are so called
    python tests/mutations.py --count 4 --seed 2026-12-01    a few, chosen by the seed

The copy's tests must pass before any mutation. A mutation counts as caught when an
assertion of a named test failed; a compile error, a crash or a hang does not count.
Survivors are listed, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import datetime
import filecmp
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import vulkan  # noqa: E402
from mutants import MUTANTS, Mutant  # noqa: E402
from mutants_gpu import SHADER_TESTS  # noqa: E402
from remote import NATIVE  # noqa: E402

COPIED = ("cpp", "shaders", "reference", "tests", "wasm/variants.json", "pyproject.toml")
TABLE = ROOT / "tests/mutations.md"
KINDS = ("oracle", "core", "gpu")
LIMIT_S = 300
"""A test run that is longer hangs: unmutated it takes about 20 s."""


def tests_for(kind: str, file: str = "cpp/src/kernels") -> list[str]:
    """pytest's arguments, the narrowest test that may see a mistake in the file first."""
    if kind == "oracle":
        files = [
            "tests/parity/test_op_gradients.py",
            "tests/oracle",
            "tests/interop/test_fixture.py",
        ]
        return [*files, "-k", "not central"]
    if kind == "gpu":
        seen = SHADER_TESTS.get(Path(file).stem, "test")
        files = ["tests/gpu/test_kernels.py", "tests/gpu/test_kernel_rules.py"]
        return [*files, "-k", f"naga and ({seen})"]
    levels = ["step", "trajectory", "random", "refusals", "determinism"]
    levels.insert(0 if "kernels" in file else len(levels), "kernels")
    return [*(f"tests/parity/test_{name}.py" for name in levels), "-k", NATIVE[0]]


class AnchorError(Exception):
    """A mutant's text is not in its file exactly once."""


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    test: str  # the first test that failed, "" where none did
    why: str  # its assertion, or what happened instead
    caught: bool


def check_anchors(mutants: Iterable[Mutant] = MUTANTS, root: Path = ROOT) -> None:
    """AnchorError for the first mutant that no longer fits the code."""
    for mutant in mutants:
        n = (root / mutant.file).read_text(encoding="utf-8").count(mutant.old)
        if n != 1:
            raise AnchorError(
                f"tests/mutants.py, {mutant.what!r}: {mutant.old!r} occurs {n} times in "
                f"{mutant.file}; it must occur once, so adapt the mutant to the code"
            )


class Copy:
    """A copy of the tree with a native build of its own, kept between runs for quick rebuilds.

    `options` are more of CMake's, `environment` is more of the tests' (tests/sanitize.py).
    """

    def __init__(
        self,
        folder: Path,
        options: Iterable[str] = ("-DCMAKE_BUILD_TYPE=Release",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.options, self.environment = folder, options, environment or {}
        for part in COPIED:
            self._update(part)

    def _update(self, part: str) -> None:
        """Copies what differs and removes what is gone: unchanged files keep their times."""
        source, target = ROOT / part, self.folder / part
        files = [source] if source.is_file() else sorted(source.rglob("*"))
        wanted = {f for f in files if f.is_file() and "__pycache__" not in f.parts}
        wanted = {f.relative_to(ROOT) for f in wanted if f.suffix != ".so"}
        for name in wanted:
            there = self.folder / name
            if not there.exists() or not filecmp.cmp(ROOT / name, there, shallow=False):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, there)
        for there in target.rglob("*") if target.is_dir() else []:
            gone = there.relative_to(self.folder) not in wanted
            if there.is_file() and gone and there.suffix != ".so":
                there.unlink()

    def build(self, target: str = "_core") -> bool:
        """_core from the copy's sources, into its package; False where it does not compile."""
        build = self.folder / "build"
        tools = {name: Path(sys.executable).parent / name for name in ("cmake", "ninja")}
        if not (build / "build.ninja").exists():
            configure = [
                *[tools["cmake"], "-S", self.folder / "cpp", "-B", build, "-G", "Ninja"],
                *[f"-DCMAKE_MAKE_PROGRAM={tools['ninja']}", *self.options],
                f"-DPython_EXECUTABLE={sys.executable}",
            ]
            subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([tools["ninja"], "-C", build, target], capture_output=True, text=True)
        if done.returncode == 0:
            for module in build.glob("_core*.so"):
                shutil.copyfile(module, self.folder / "reference/tabgpt" / module.name)
        return done.returncode == 0

    def test(self, tests: list[str], limit_s: int = LIMIT_S) -> tuple[str, str, bool]:
        """(first test that failed or "", its message, whether an assertion failed)."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        # -S: no site-packages hooks, so that no installed tabgpt stands before the copy's.
        command = [sys.executable, "-S", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        paths = [self.folder / "reference", sysconfig.get_paths()["purelib"]]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            **vulkan.environment(),  # the copy has no driver of its own
            **self.environment,
        }
        try:
            done = subprocess.run(
                [*command, f"--junitxml={report}", *tests],
                cwd=self.folder,
                env=environment,
                timeout=limit_s,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return "", f"no answer within {limit_s} s", False
        if done.returncode == 0:
            return "", "", False
        cases = ElementTree.parse(report).iter("testcase") if report.exists() else []
        for case in cases:
            for outcome in case:
                if outcome.tag in ("failure", "error"):
                    file = case.get("classname", "").rpartition(".")[2]
                    name = f"{file}::{case.get('name')}"
                    message = (outcome.get("message") or "").splitlines()[0]
                    asserted = message.startswith(("AssertionError", "assert", "Failed: DID NOT"))
                    return name, message, outcome.tag == "failure" and asserted
        said = (done.stdout + done.stderr)[-500:]
        return "", f"pytest ended with {done.returncode}: {said}", False

    def judge(self, mutant: Mutant) -> Verdict:
        """Applies the mutation, rebuilds, tests, and takes it back."""
        file = self.folder / mutant.file
        sound = file.read_text(encoding="utf-8")
        file.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            if mutant.kind == "core" and not self.build():
                return Verdict(mutant, "", "does not compile, which does not count", False)
            return Verdict(mutant, *self.test(tests_for(mutant.kind, mutant.file)))
        finally:
            file.write_text(sound, encoding="utf-8")


def baselines(mutants: list[Mutant]) -> list[list[str]]:
    """What must be green before: the tests of each file; of many files, all of the kind."""
    files = {m.file: tests_for(m.kind, m.file) for m in mutants}
    if len(files) > 8:
        return [tests_for(kind) for kind in sorted({mutant.kind for mutant in mutants})]
    return list({tuple(tests): tests for tests in files.values()}.values())


def run(mutants: list[Mutant], folder: Path) -> list[Verdict]:
    """The baselines first, SystemExit where one is not green; then every mutant."""
    check_anchors()
    copy = Copy(folder.resolve())  # its tests run in there
    kinds = sorted({mutant.kind for mutant in mutants})
    needs_core = kinds != ["gpu"]  # the kernels are tested without it
    if needs_core and not copy.build():
        sys.exit(f"mutations: the unmutated copy in {folder} does not compile")
    for baseline in baselines(mutants):
        test, why, _ = copy.test(baseline)
        if test or why:
            sys.exit(f"mutations: the unmutated copy is not green: {test} {why}")
    verdicts = []
    for number, mutant in enumerate(sorted(mutants, key=lambda m: (m.kind, m.file)), 1):
        verdict = copy.judge(mutant)
        verdicts.append(verdict)
        fate = verdict.test if verdict.caught else f"SURVIVED {verdict.test} {verdict.why}"
        print(f"{number}/{len(mutants)} {mutant.file}: {mutant.what}: {fate}", flush=True)
    if needs_core:
        copy.build()
    return verdicts


def choose(count: int | None, seed: str) -> list[Mutant]:
    """All, or `count` of them by the seed, as many of each kind as of another."""
    if count is None or count >= len(MUTANTS):
        return MUTANTS
    rng = random.Random(seed)
    groups = [[m for m in MUTANTS if m.kind == kind] for kind in KINDS]
    sizes = [(count + i) // len(KINDS) for i in range(len(KINDS))]
    return [m for group, n in zip(groups, sizes, strict=True) for m in rng.sample(group, n)]


def table(verdicts: list[Verdict], before: str) -> str:
    """mutations.md; of mutants that were not run, the line in the table of before."""
    lines = {(v.mutant.file, v.mutant.what): _line(v) for v in verdicts}
    for line in before.splitlines():
        cells = line.split(" | ")
        lines.setdefault((cells[0].removeprefix("| "), cells[1] if len(cells) > 1 else ""), line)
    wanted = [(m.file, m.what) for m in sorted(MUTANTS, key=lambda m: (m.kind, m.file))]
    known = [lines[key] for key in wanted if key in lines]
    survivors = sum("**survived**" in line for line in known)
    head = [
        "# Mutations",
        "",
        "Written by `python tests/mutations.py`: each line is a one-term mistake in a copy of the",
        "tree, the first test that failed and its assertion. Unmutated, all of them pass.",
        f"{len(known)} mutations, {survivors} survivors.",
        "",
        "| file | mistake | first test to fail | assertion |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *known]) + "\n"


def _line(v: Verdict) -> str:
    seen = (f"`{v.test}`", f"`{_short(v.why)}`") if v.caught else ("**survived**", _short(v.why))
    return f"| {v.mutant.file} | {v.mutant.what} | {seen[0]} | {seen[1]} |"


def _short(text: str) -> str:
    text = text.removeprefix("AssertionError: ").replace("|", "/").replace("`", "'")
    return text if len(text) <= 120 else text[:117] + "..."


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutate a copy of the tree, and test it.")
    parser.add_argument("--count", type=int, help="how many; default all")
    parser.add_argument("--kind", choices=KINDS, help="only these")
    parser.add_argument("--file", action="append", help="only in files whose path ends so")
    parser.add_argument(
        "--seed", default=datetime.date.today().isoformat(), help="default: the date"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build/mutations", help="the copy")
    options = parser.parse_args()
    chosen = choose(options.count, options.seed)
    if options.kind:
        chosen = [mutant for mutant in chosen if mutant.kind == options.kind]
    if options.file:
        chosen = [mutant for mutant in chosen if mutant.file.endswith(tuple(options.file))]
    try:
        verdicts = run(chosen, options.folder)
    except AnchorError as error:
        sys.exit(f"mutations: {error}")
    if options.count is None:
        TABLE.write_text(table(verdicts, TABLE.read_text(encoding="utf-8")), encoding="utf-8")
    survivors = [v for v in verdicts if not v.caught]
    print(f"{len(verdicts)} mutations, {len(survivors)} survivors")
    for v in survivors:
        print(f"  {v.mutant.file}: {v.mutant.what}: {v.test} {v.why}")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
