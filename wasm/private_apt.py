"""Debian packages without root: a private apt configuration on the machine's own mirror.

Nothing of the system changes, and no host is named: the mirror is the one that the
machine's apt already uses. Signatures are checked with the distribution's keyring.
This is not a package manager: it downloads, and unpacks into a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class AptError(Exception):
    """Why packages cannot be had in this way."""


def check() -> None:
    """AptError where this is not a Debian system."""
    missing = [name for name in ("apt-get", "dpkg-deb", "tar") if not shutil.which(name)]
    if missing or not KEYRING.exists():
        raise AptError(f"not a Debian system ({', '.join(missing) or KEYRING} missing)")


def present(names: Iterable[str]) -> str:
    """A dpkg status that says of the packages, and of no others, that they are installed."""
    arch = _output("dpkg", "--print-architecture").strip()
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: {arch}\n"
        "Multi-Arch: allowed\nVersion: 99:99\nMaintainer: none\nDescription: not needed\n\n"
        for name in names
    )


def configure(root: Path, suites: Iterable[str], status: str) -> dict[str, str]:
    """An apt under root that knows these suites and this dpkg status; the environment to use."""
    format = "$(SITE) $(COMPONENT) $(RELEASE)"
    targets = _output("apt-get", "indextargets", "--format", format).splitlines()
    mirrors = [
        site
        for site, component, release in (line.split() for line in targets if line.count(" ") == 2)
        if component == "main" and "security" not in release
    ]
    if not mirrors:
        raise AptError("apt has no package source on this machine")
    for folder in ("apt.conf.d", "preferences.d", "sources.list.d"):
        (root / "etc" / folder).mkdir(parents=True)
    for folder in ("state/lists", "cache/archives"):
        (root / folder / "partial").mkdir(parents=True)
    arch = _output("dpkg", "--print-architecture").strip()
    (root / "state/status").write_text(status)
    (root / "etc/sources.list").write_text(
        "".join(f"deb [signed-by={KEYRING}] {mirrors[0]} {suite} main\n" for suite in suites)
    )
    settings = {
        "Dir::Etc": root / "etc",
        "Dir::Etc::SourceList": root / "etc/sources.list",
        "Dir::Etc::SourceParts": root / "etc/sources.list.d",
        "Dir::Etc::Parts": root / "etc/apt.conf.d",
        "Dir::Etc::Preferences": root / "etc/preferences",
        "Dir::Etc::PreferencesParts": root / "etc/preferences.d",
        "Dir::State": root / "state",
        "Dir::State::status": root / "state/status",
        "Dir::State::Lists": root / "state/lists",
        "Dir::Cache": root / "cache",
        "Dir::Cache::archives": root / "cache/archives",
        "Dir::Log": root,
        "APT::Architecture": arch,
        "APT::Install-Recommends": "false",
        "APT::Get::List-Cleanup": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        # A moving suite's Release file may be past its date; its signature is still checked.
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "5",
        "Debug::NoLocking": "true",
    }
    lines = [f'{key} "{value}";\n' for key, value in settings.items()]
    lines.append(f'APT::Architectures {{ "{arch}"; }};\n')
    (root / "apt.conf").write_text("".join(lines))
    return {**os.environ, "APT_CONFIG": str(root / "apt.conf")}


def download(environment: dict[str, str], root: Path, *install: str) -> list[Path]:
    """The .deb files of `apt-get install` with these arguments, dependencies included."""
    for command in (["update"], ["-y", "--download-only", "install", *install]):
        subprocess.run(["apt-get", "-q", *command], env=environment, check=True)
    return sorted((root / "cache/archives").glob("*.deb"))


def unpack(packages: Iterable[Path], root: Path, excludes: Iterable[str] = ()) -> None:
    """The packages' files under root, without those of the patterns."""
    options = [f"--exclude={pattern}" for pattern in excludes]
    for package in packages:
        reader = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        tar = ["tar", "-x", "-C", str(root), "--no-same-owner", *options]
        subprocess.run(tar, stdin=reader.stdout, check=True)
        if reader.wait() != 0:
            raise AptError(f"dpkg-deb could not read {package.name}")


def use_own_loader(root: Path, programs: Iterable[Path], patchelf: str, *folders: Path) -> None:
    """Binds unpacked programs to the C library that was unpacked beside them.

    It may be newer than the machine's. `folders` hold more libraries of theirs.
    """
    libraries = next((root / "usr/lib").glob("*-linux-gnu*"))
    loader = next(libraries.glob("ld-linux*.so*"))
    patch = [patchelf, "--force-rpath", "--set-rpath"]
    for library in libraries.glob("*.so*"):
        if not _is_elf(library) or library.name.startswith(("ld-linux", "libc.so")):
            continue
        if _output(patchelf, "--print-rpath", str(library)).strip():
            subprocess.run([*patch, "$ORIGIN", library], check=True)
    patch += [":".join(map(str, [libraries, *folders])), "--set-interpreter", str(loader)]
    for program in programs:
        if _is_elf(program):
            subprocess.run([*patch, program], check=True)


def _is_elf(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
