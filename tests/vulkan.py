"""Finds the Vulkan driver that the GPU tests run on; as a script, fetches one where there is none.

No GPU is needed: Mesa's lavapipe computes on the CPU. A driver is good when wgpu-py
(Naga) and Dawn in Node (Tint) both get a device from it; Mesa before 24 is refused by
Dawn. What $VK_DRIVER_FILES names is used as it is, then one fetched before, then the
system's. On Debian, without root, a newer Mesa is downloaded from the distribution's
backports and unpacked under .tools/vulkan; nothing else is touched.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / ".tools/vulkan"
ICD = OWN / "lavapipe.json"
WANTED = ("mesa-vulkan-drivers", "libvulkan1")
# What every machine has; whatever else Mesa needs is fetched with it.
HERE = ("libc6", "libgcc-s1", "libstdc++6", "debconf")
HOW = (
    "the GPU tests need a Vulkan driver that wgpu and Dawn accept. Install Mesa's Vulkan drivers "
    f"of version 25 or newer ({' '.join(WANTED)}; Debian 12 has them in its backports), or set "
    "VK_DRIVER_FILES to a driver's JSON file."
)
LIMIT_S = 60

PROBE_WGPU = """
import wgpu
found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
print(found[0].info["description"] or found[0].info["device"]) if found else exit(1)
found[0].request_device_sync()
"""
PROBE_DAWN = """
import { create } from 'webgpu';
const adapter = await create(['backend=vulkan']).requestAdapter();
if (adapter !== null) await adapter.requestDevice();
process.exit(adapter === null ? 1 : 0);
"""


def environment() -> dict[str, str]:
    """For a process that computes on the GPU; compiled shaders are kept in the checkout."""
    cache = "MESA_SHADER_CACHE_DIR"
    kept = {cache: os.environ.get(cache, str(ROOT / ".cache/mesa"))}
    if os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES") or not ICD.exists():
        return kept
    return {**kept, **own_driver()}


def own_driver() -> dict[str, str]:
    """For the driver under .tools/vulkan, with the libraries that came with it."""
    roots = (OWN / "root/usr/lib", OWN / "root/lib")
    folders = [str(folder) for root in roots for folder in sorted(root.glob("*-linux-gnu*"))]
    if before := os.environ.get("LD_LIBRARY_PATH"):
        folders.append(before)
    # The second name is the one that Vulkan loaders before 1.3.207 know.
    drivers = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(ICD))
    return {**drivers, "LD_LIBRARY_PATH": os.pathsep.join(folders)}


def probe(variables: dict[str, str]) -> str | None:
    """The driver's name where both implementations get a device from it, else None."""
    options = {
        "env": {**os.environ, **variables},
        "cwd": ROOT / "browser",  # where Node finds the module
        "capture_output": True,
        "text": True,
        "timeout": LIMIT_S,
    }
    node = [shutil.which("node") or "node", "--input-type=module", "-e", PROBE_DAWN]
    try:
        naga = subprocess.run([sys.executable, "-c", PROBE_WGPU], **options)
        tint = subprocess.run(node, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return naga.stdout.strip() if naga.returncode == tint.returncode == 0 else None


def fetch() -> None:
    """Mesa's Vulkan drivers and their libraries into .tools/vulkan, about 55 MB to fetch."""
    sys.path.insert(0, str(ROOT / "wasm"))
    import private_apt

    private_apt.check()
    codename = platform.freedesktop_os_release()["VERSION_CODENAME"]
    shutil.rmtree(OWN, ignore_errors=True)
    apt, root = OWN / ".apt", OWN / "root"
    root.mkdir(parents=True)
    newer = f"{codename}-backports"
    settings = private_apt.configure(apt, [codename, newer], private_apt.present(HERE))
    packages = private_apt.download(settings, apt, "-t", newer, *WANTED)
    private_apt.unpack(packages, root, ["./usr/share/doc/*"])
    library = next((root / "usr/lib").rglob("libvulkan_lvp.so")).relative_to(OWN)
    driver = {"library_path": f"./{library}", "api_version": "1.3.0"}  # relative to the file
    ICD.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}) + "\n")
    shutil.rmtree(apt)


def main() -> None:
    if not (ROOT / "browser/node_modules/webgpu").is_dir():
        sys.exit("vulkan: browser/node_modules lacks Dawn; run this by `make vulkan`")
    name = probe(environment())
    if name is None and not os.environ.get("VK_DRIVER_FILES"):
        try:
            fetch()
        except Exception as error:  # whatever went wrong, the way out is the same
            sys.exit(f"vulkan: no driver to be had ({error}): {HOW}")
        name = probe(environment())
    if name is None:
        sys.exit(f"vulkan: {HOW}")
    print(f"vulkan: {name}")


if __name__ == "__main__":
    main()
