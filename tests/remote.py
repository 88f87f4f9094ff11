"""Every build of the core as a process that pytest talks to, with one session protocol.

A build runs in a process of its own: a crash is one failed test, the ISA is chosen
by environment, and native and WASM builds are asked in the same words. The wire is
a JSON line followed by the arrays' bytes (tests/wasm/wire.ts, tests/native_worker.py).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyodide_node
import vulkan
from tabgpt.backends import StepMetrics
from tabgpt.config import ModelConfig, TrainConfig

ROOT = Path(__file__).resolve().parent.parent
NODE = Path(sys.executable).parent / "node"
WASM = [v["name"] for v in json.loads((ROOT / "wasm/variants.json").read_text())["variants"]]
NATIVE = {
    "x86_64": ["native-avx2", "native-generic"],
    "aarch64": ["native-neon"],
    "arm64": ["native-neon"],
}.get(platform.machine(), ["native-generic"])
BUILDS = [*NATIVE, *(f"wasm-{name}" for name in WASM)]
if "TABGPT_BUILDS" in os.environ:  # pyodide-node and pyodide-tab, of which CONTRIBUTING tells
    BUILDS = os.environ["TABGPT_BUILDS"].split(",")
GPU_BUILDS = ["wgpu", "webgpu-dawn"]
"""Executors of the core's GPU plans: wgpu-py's, and the page's own on Chromium's WebGPU in Node."""
THREADED = [name for name in BUILDS if name.startswith("native") or "threads" in name]


class CoreError(Exception):
    """What the core refused, in its own words."""


class Remote:
    """One build's process."""

    def __init__(self, name: str) -> None:
        self.name = name
        kind, _, variant = name.partition("-")
        environment = dict(os.environ)
        alone = ["-S"] if sys.flags.no_site else []  # as tests/mutations.py runs its copies
        if kind == "native":
            command = [sys.executable, *alone, str(ROOT / "tests/native_worker.py")]
            environment["TABGPT_ISA"] = variant
        elif kind == "wgpu":
            command = [sys.executable, *alone, str(ROOT / "tests/wgpu_worker.py")]
            environment |= vulkan.environment()
        elif kind == "webgpu":
            command = [str(NODE), str(ROOT / "tests/wasm/runner.ts"), kind]
            environment |= vulkan.environment()
        elif name == "pyodide-node":
            command = pyodide_node.command(ROOT / "tests/native_worker.py", ["numpy", "tabgpt"])
        elif name == "pyodide-tab":
            command = [sys.executable, str(ROOT / "tests/pyodide_tab.py")]
        else:
            built = ROOT / f"browser/public/wasm/{variant}/tabgpt.wasm"
            assert built.exists(), f"{built.relative_to(ROOT)} is missing; run `make wasm`"
            command = [str(NODE), str(ROOT / "tests/wasm/runner.ts"), variant]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT
        )

    def __call__(self, call: str, arrays: Sequence[np.ndarray] = (), **args: Any) -> Any:
        """The JSON result, or the arrays where there are any; CoreError where it was refused."""
        data = [np.ascontiguousarray(array).tobytes() for array in arrays]
        header = {"call": call, "args": args, "bytes": [len(item) for item in data]}
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None and source is not None
        try:
            sink.write(json.dumps(header).encode() + b"\n" + b"".join(data))
            sink.flush()
            line = source.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise RuntimeError(
                f"{self.name} died in {call}: exit code {self._process.wait()}{self._last_words()}"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise CoreError(reply["error"])
        got = []
        for array in reply["arrays"]:
            n = int(np.prod(array["shape"])) * 4
            got.append(np.frombuffer(source.read(n), dtype=array["dtype"]).reshape(array["shape"]))
        return got if got else reply["result"]

    def op(
        self, name: str, params: Sequence[float], tensors: Sequence[np.ndarray], threads: int = 1
    ) -> list[np.ndarray]:
        """All tensors as the kernel left them, flat; ids cross by their bits."""
        return self("op", tensors, name=name, params=list(params), threads=threads)

    def open(
        self,
        config: ModelConfig,
        train: TrainConfig | None = None,
        tokens: np.ndarray | None = None,
        mode: str = "train",
        threads: int | None = None,
        variants: str = "",
    ) -> RemoteSession:
        return RemoteSession(self, config, train or TrainConfig(), tokens, mode, threads, variants)

    def _last_words(self) -> str:
        """What it printed before it died, where that is not on the screen already."""
        return ""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def default_threads(self) -> int:
        return 2 if self.name in THREADED else 1

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()


class RemoteSession:
    """tabgpt.backends.Session over the wire; tensors are copied, so writing needs `set`."""

    def __init__(
        self,
        remote: Remote,
        config: ModelConfig,
        train: TrainConfig,
        tokens: np.ndarray | None,
        mode: str,
        threads: int | None,
        variants: str,
    ) -> None:
        self._remote, self.config = remote, config
        self._id = remote(
            "open",
            [] if tokens is None else [tokens.astype(np.uint32)],
            config={**asdict(config), **asdict(train)},
            mode=mode,
            threads=threads or remote.default_threads,
            variants=variants,
        )

    def _call(self, call: str, arrays: Sequence[np.ndarray] = (), **args: Any) -> Any:
        return self._remote(call, arrays, session=self._id, **args)

    def init_weights(self) -> None:
        self._call("init_weights")

    def names(self) -> list[str]:
        return self._call("names")

    def tensor(self, name: str) -> np.ndarray:
        return self._call("get", name=name)[0]

    def set(self, name: str, value: np.ndarray) -> None:
        self._call("set", [np.asarray(value, np.float32)], name=name)

    @property
    def step_number(self) -> int:
        return self._call("step_number")

    @step_number.setter
    def step_number(self, step: int) -> None:
        self._call("set_step_number", step=step)

    def step(self) -> StepMetrics:
        number = self.step_number
        m = self._call("step")
        return StepMetrics(number, float(m["loss"]), m["lr"], float(m["grad_norm"]), m["finite"])

    def tiles(self) -> list[float]:
        return self._call("tiles")

    def _loss(self, call: str, tokens: np.ndarray, targets: np.ndarray, **args: Any) -> float:
        pair = [ids.astype(np.uint32) for ids in (tokens, targets)]
        batch, length = tokens.shape
        return float(self._call(call, pair, batch=batch, length=length, **args))

    def loss(
        self,
        tokens: np.ndarray,
        targets: np.ndarray,
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float:
        return self._loss("loss", tokens, targets, train=train, step=step, micro=micro)

    def loss_and_grads(
        self,
        tokens: np.ndarray,
        targets: np.ndarray,
        train: bool = False,
        step: int = 0,
        micro: int = 0,
    ) -> float:
        return self._loss("loss_and_grads", tokens, targets, train=train, step=step, micro=micro)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        batch, length = tokens.shape
        sizes = {"batch": batch, "length": length, "vocab": self.config.vocab_size}
        return self._call("logits", [tokens.astype(np.uint32)], **sizes)[0]

    def evaluate(self, split: str, n_batches: int = 0) -> float:
        return float(self._call("evaluate", split=split, batches=n_batches))

    def sample(
        self,
        prompt: Sequence[int],
        n: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[int]:
        sampling = {"temperature": temperature, "topK": top_k, "topP": top_p, "seed": seed}
        return self._call("generate", [np.array(prompt, np.uint32)], sampling=sampling, count=n)

    def close(self) -> None:
        self._call("close")
