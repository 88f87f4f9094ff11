"""Finds the Chromium that the browser tests drive; as a script, installs it where it may.

Playwright's own browsers are not used: the page is tested in the browser that people have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# The Vulkan packages are for its software WebGPU adapter.
PACKAGES = ("chromium", "mesa-vulkan-drivers", "libvulkan1")
HOW = (
    "Chromium is not installed, and the browser tests need it. Install it with the system's "
    f"package manager (Debian: apt-get install {' '.join(PACKAGES)}), or set CHROMIUM to its path."
)


def find_chromium() -> Path | None:
    """$CHROMIUM (FileNotFoundError when it names nothing), else the first of NAMES on PATH."""
    if named := os.environ.get("CHROMIUM"):
        if shutil.which(named) is None:
            raise FileNotFoundError(f"CHROMIUM is '{named}', which is not a program")
        return Path(named)
    return next((Path(path) for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    """By apt, and as root only: nobody is asked for a password."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        apt = ["apt-get", "-qq", *command]
        subprocess.run(apt, env=environment, stdin=subprocess.DEVNULL, check=False)


def main() -> None:
    if find_chromium() is None:
        install()
    found = find_chromium()
    if found is None:
        sys.exit(HOW)
    print(f"chromium: {found}")


if __name__ == "__main__":
    main()
