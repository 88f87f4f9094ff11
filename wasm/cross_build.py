"""Pyodide's cross-build environment, put together from the npm package and CPython's headers.

pyodide-build's own archive holds the same: the runtime (pyodide-root/dist), Python's
headers and build settings as Emscripten sees them (cpython/installs), and the flags
that every module must be compiled with (Makefile.envs). Headers of another patch
release of the same minor version do, since CPython keeps its ABI within one; only
pyconfig.h depends on the platform, and is written anew from the runtime's sysconfig.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import zipfile
from pathlib import Path
from typing import Any

SYSCONFIG = "_sysconfigdata__emscripten_wasm32-emscripten"
RUNTIME_FILES = (
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide.mjs",
    "pyodide.js",
    "python_stdlib.zip",
    "pyodide-lock.json",
    "package.json",
)
# The runtime is compiled so, and a module must be too, or it does not link: PIC, WebAssembly's
# exceptions, longjmp by them.
FLAGS = "-fwasm-exceptions -sSUPPORT_LONGJMP=wasm"
MAKEFILE = """\
export PYVERSION={python}
export PYMAJOR={major}
export PYMINOR={minor}
export PYMICRO={micro}
export PYODIDE_VERSION={version}
export PYODIDE_ABI_VERSION={abi}
export PYODIDE_EMSCRIPTEN_VERSION={emscripten}
export PLATFORM_TRIPLET=wasm32-emscripten
export SYSCONFIG_NAME={sysconfig}
export CPYTHONINSTALL=$(PYODIDE_ROOT)/cpython/installs/python-{python}
export TARGETINSTALLDIR=$(CPYTHONINSTALL)
export SYSCONFIGDATA_DIR=$(CPYTHONINSTALL)/sysconfigdata/
export PYTHONINCLUDE=$(CPYTHONINSTALL)/include/python{major}.{minor}
export PIP_CONSTRAINT=$(PYODIDE_ROOT)/tools/constraints.txt
export CFLAGS_BASE=-O2 -g0 -fPIC {flags}
export CXXFLAGS_BASE=
export LDFLAGS_BASE=-O2 -g0 -Wl,--experimental-pic -L$(CPYTHONINSTALL)/lib/ {flags}
.output_vars:
	set
"""


def assemble(folder: Path, runtime: Path, headers: Path, version: str) -> None:
    """Makes what `pyodide xbuildenv install` leaves in `folder`, for the npm package `runtime`.

    `headers` holds pythonX.Y/ of a native CPython, of the runtime's X.Y.
    """
    info = json.loads((runtime / "pyodide-lock.json").read_text())["info"]
    major, minor, micro = info["python"].split(".")
    root = folder / version / "xbuildenv" / "pyodide-root"
    install = root / "cpython" / "installs" / f"python-{info['python']}"
    for needed in (root / "dist", root / "tools", install / "lib", install / "sysconfigdata"):
        needed.mkdir(parents=True)
    for name in RUNTIME_FILES:
        shutil.copy(runtime / name, root / "dist")
    shutil.copy(runtime / "package.json", root)
    (root / "tools" / "constraints.txt").touch()
    (root.parent / "requirements.txt").touch()
    (root.parent / "site-packages-extras").mkdir()
    (root / "Makefile.envs").write_text(
        MAKEFILE.format(
            python=info["python"],
            major=major,
            minor=minor,
            micro=micro,
            version=version,
            abi=info["abi_version"],
            emscripten=info["platform"].removeprefix("emscripten_").replace("_", "."),
            sysconfig=SYSCONFIG,
            flags=FLAGS,
        )
    )
    settings = build_settings(runtime, install / "sysconfigdata")
    include = install / "include" / f"python{major}.{minor}"
    shutil.copytree(headers / include.name, include)
    (include / "pyconfig.h").write_text(pyconfig(native_pyconfig(headers, include.name), settings))
    (folder / version / ".installed").touch()
    (folder / version / ".build-python-version").write_text(f"{major}.{minor}")
    (folder / "xbuildenv").symlink_to(version)


def build_settings(runtime: Path, folder: Path) -> dict[str, Any]:
    """The runtime's sysconfig variables, from its standard library; the module goes to folder."""
    with zipfile.ZipFile(runtime / "python_stdlib.zip") as library:
        module = Path(library.extract(f"{SYSCONFIG}.py", folder))
    variables: dict[str, Any] = runpy.run_path(str(module))["build_time_vars"]
    return variables


def native_pyconfig(headers: Path, name: str) -> str:
    """The text of pyconfig.h; Debian keeps the real one under the platform's folder."""
    found = [*headers.glob(f"*-linux-gnu*/{name}/pyconfig.h"), headers / name / "pyconfig.h"]
    return found[0].read_text()


def pyconfig(native: str, settings: dict[str, Any]) -> str:
    """pyconfig.h with the names of a native one and the values of sysconfig.

    sysconfig's variables are pyconfig.h's and the Makefile's together, and 0 there may be
    "undefined" or the value 0: 0 is written for HAVE_DECL_*, which are always defined.
    """
    lines = ["#ifndef Py_PYCONFIG_H", "#define Py_PYCONFIG_H"]
    names = re.findall(r"^(?:#define|/\* #undef) ([A-Z_]\w*)", native, re.MULTILINE)
    for name in dict.fromkeys(names):
        value = settings.get(name, 0)
        if name == "Py_PYCONFIG_H":
            continue
        if value == 0 and not name.startswith("HAVE_DECL_"):
            lines.append(f"/* #undef {name} */")
        else:
            lines.append(f"#define {name} {value}")
    lines += ["#ifndef _GNU_SOURCE", "#define _GNU_SOURCE 1", "#endif", "#endif", ""]
    return "\n".join(lines)
