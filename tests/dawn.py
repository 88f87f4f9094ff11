"""The page's GPU path as a process for pytest: its own code, on Chromium's WebGPU in Node."""

from __future__ import annotations

import os
import subprocess

import vulkan
from remote import NODE, ROOT, Remote


class Dawn(Remote):
    """tests/wasm/runner.ts on the GPU that Dawn finds through the driver of tests/vulkan.py."""

    def __init__(self) -> None:
        self.name = "webgpu-dawn"
        self._process = subprocess.Popen(
            [str(NODE), str(ROOT / "tests/wasm/runner.ts"), "webgpu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **vulkan.environment()},
            cwd=ROOT,
        )
