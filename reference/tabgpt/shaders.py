"""What a .wgsl file declares, read from its text: the one place that says how a kernel is bound.

A kernel is a file of `shaders/` with an entry point; the others are included by a line
`//! include name.wgsl`, once each; a line `//! enable name` says which language extension
it needs. Plans are compared with these declarations before
anything is created, since a browser drops a wrong dispatch in silence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import BackendError

_INCLUDE = re.compile(r"^//! include (\w+)\.wgsl$", re.M)
_ENABLE = re.compile(r"^//! enable (\w+)$", re.M)
_BINDING = re.compile(
    r"^@group\(0\) @binding\((\d+)\) var<(uniform|storage, read_write|storage, read)> (\w+):", re.M
)
_ANY_BINDING = re.compile(r"^[^/\n]*@binding\(", re.M)
_OVERRIDE = re.compile(r"^override (\w+):", re.M)
_PARAMS = re.compile(r"^struct Params \{([^}]*)\}", re.M)
_WORKGROUP = re.compile(r"@workgroup_size\(([\d, ]+)\)")

FEATURES = {"f16": "shader-f16", "subgroups": "subgroups"}
"""Language extension -> the feature of a device that it needs, as WebGPU calls it."""
IMPLIED = {"subgroups"}
"""Extensions that Naga refuses to hear named; their functions are there nonetheless."""


@dataclass(frozen=True)
class Kernel:
    """One algorithm and its contract."""

    name: str
    code: str
    """The whole WGSL text as Naga takes it: includes put in, extensions enabled."""
    bindings: tuple[tuple[str, str], ...]
    """(name, "uniform" | "read" | "read_write"), in the order of their numbers."""
    params: tuple[tuple[str, str], ...]
    """(name, "u32" | "i32" | "f32"): the words of the uniform `p`, in order."""
    overrides: tuple[str, ...]
    workgroup: tuple[int, ...]
    extensions: tuple[str, ...] = ()
    """Of the language; keys of FEATURES."""

    def for_tint(self) -> str:
        """The text as Chromium's and Dawn's compiler takes it."""
        return _enabled(self.code, [name for name in self.extensions if name in IMPLIED])


def folder() -> Path:
    """Where the .wgsl files are: beside this file when installed, else in the source tree."""
    installed = Path(__file__).parent / "shaders"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "shaders"


def names() -> list[str]:
    """Of all kernels."""
    files = sorted(folder().glob("*.wgsl"))
    return [file.stem for file in files if "@compute" in file.read_text(encoding="utf-8")]


def text(name: str) -> str:
    """Of one file, as it is; BackendError where there is none."""
    file = folder() / f"{name}.wgsl"
    if not file.exists():
        raise BackendError(f"there is no shader {file.name!r} in {file.parent}")
    return file.read_text(encoding="utf-8")


def expand(code: str, seen: set[str] | None = None) -> str:
    """Includes put in; a file included by two others is put in once, where it comes first."""
    done = set() if seen is None else seen

    def put_in(line: re.Match[str]) -> str:
        if line[1] in done:
            return ""
        done.add(line[1])
        return expand(text(line[1]), done)

    return _INCLUDE.sub(put_in, code)


def _enabled(code: str, extensions: Sequence[str]) -> str:
    return "".join(f"enable {name};\n" for name in extensions) + code


@cache
def kernel(name: str) -> Kernel:
    """Reads a kernel's declarations; BackendError for one that is not there or not in this form."""
    return read(name, expand(text(name)))


def read(name: str, code: str) -> Kernel:
    """The declarations of an expanded text."""
    found = list(_BINDING.finditer(code))
    declared = len(_ANY_BINDING.findall(code))
    if declared != len(found):
        raise BackendError(
            f"{name}.wgsl: {declared - len(found)} of {declared} bindings are not in canonical form"
        )
    for i, binding in enumerate(found):
        if int(binding[1]) != i:
            raise BackendError(
                f"{name}.wgsl: binding {binding[1]} ({binding[3]}) stands where {i} is due"
            )
    params, workgroup = _PARAMS.search(code), _WORKGROUP.search(code)
    if params is None or workgroup is None:
        raise BackendError(f"{name}.wgsl lacks struct Params or a workgroup size in numbers")
    extensions = tuple(_ENABLE.findall(code))
    if unknown := set(extensions) - set(FEATURES):
        raise BackendError(f"{name}.wgsl enables {sorted(unknown)[0]!r}, not one of {[*FEATURES]}")
    words = (word.split(":") for word in params[1].split(",") if word.strip())
    return Kernel(
        name,
        _enabled(code, [extension for extension in extensions if extension not in IMPLIED]),
        tuple((b[3], b[2].removeprefix("storage, ")) for b in found),
        tuple((word.strip(), kind.strip()) for word, kind in words),
        tuple(_OVERRIDE.findall(code)),
        tuple(int(size) for size in workgroup[1].split(",")),
        extensions,
    )


def check_access(declared: Kernel, modes: Sequence[str]) -> None:
    """BackendError where a plan would bind otherwise than the shader declares."""
    if len(modes) != len(declared.bindings):
        raise BackendError(
            f"{declared.name}.wgsl has {len(declared.bindings)} bindings, "
            f"the plan gives it {len(modes)}"
        )
    for (name, mode), planned in zip(declared.bindings, modes, strict=True):
        if mode != planned:
            raise BackendError(
                f"{declared.name}.wgsl declares {name!r} as {mode}, the plan binds it as {planned}"
            )
