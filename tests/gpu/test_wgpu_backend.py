"""The backend "wgpu" as people use it: the command, its files, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_run
import vulkan
from remote import ROOT
from safetensors.numpy import load_file
from trajectory import GPU_BOUND

TRAIN = ("train", "--preset", "tiny", "--ctx", 8, "--n-head", 2, "--d-model", 8, "--batch", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus; skips where there is no adapter, unless TABGPT_NEEDS_GPU is set."""
    folder = tmp_path_factory.mktemp("wgpu")
    (folder / "tiny.txt").write_text(tiny_run.TEXT, encoding="utf-8")
    done = python("from tabgpt.gpu.adapter import find_adapter; find_adapter()", folder)
    if "finds no GPU adapter" in done.stderr and not os.environ.get("TABGPT_NEEDS_GPU"):
        pytest.skip("no GPU adapter")
    assert done.returncode == 0, done.stderr
    return folder


def python(code: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: Naga may abort."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=tiny_run.environment(**vulkan.environment(), **more),
        capture_output=True,
        text=True,
        timeout=300,
    )


def tabgpt(folder: Path, *arguments: object) -> str:
    done = tiny_run.tabgpt(*arguments, cwd=folder, **vulkan.environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(folder: Path) -> list[str]:
    """Of each step, as text: without its times."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [line.partition('"lr"')[0] for line in lines]


def test_command_trains_resumes_evaluates_and_samples(folder: Path) -> None:
    """A stopped run goes on to the bits of one that never stopped; the CPU reads its files."""
    common = ("--corpus", "tiny.txt", "--schedule", "constant", "--dropout", 0.1)
    said = tabgpt(folder, *TRAIN, *common, "--backend", "wgpu", "--out", "whole", "--steps", 8)
    assert "backend wgpu (" in said
    tabgpt(folder, *TRAIN, *common, "--backend", "wgpu", "--out", "parts", "--steps", 5)
    assert "backend wgpu (" in tabgpt(folder, "train", "--resume", "parts", "--steps", 8)
    assert losses(folder / "parts") == losses(folder / "whole")
    whole, parts = (
        load_file(next((folder / run).glob("optimizer-*.safetensors")))
        for run in ("whole", "parts")
    )
    assert {n: a.tobytes() for n, a in whole.items()} == {n: a.tobytes() for n, a in parts.items()}
    evaluate = ("eval", "whole", "--corpus", "tiny.txt")
    gpu, cpu = (
        float(tabgpt(folder, *evaluate, "--backend", b).split("loss ")[1].split()[0].strip(","))
        for b in ("wgpu", "native")
    )
    assert gpu == pytest.approx(cpu, rel=1e-5)
    write = ("sample", "whole", "--prompt", "The", "--temperature", 0, "--max-new-tokens", 30)
    assert tabgpt(folder, *write, "--backend", "wgpu") == tabgpt(folder, *write)


def test_a_run_moves_between_cpu_and_gpu(folder: Path) -> None:
    """With dropout and accumulation: on either it draws the same batches and masks."""
    common = ("--corpus", "tiny.txt", "--schedule", "constant", "--dropout", 0.1)
    common += ("--grad-accum", 3)
    tabgpt(folder, *TRAIN, *common, "--backend", "native", "--out", "cpu", "--steps", 9)
    tabgpt(folder, *TRAIN, *common, "--backend", "native", "--out", "both", "--steps", 3)
    for backend, steps in (("wgpu", 6), ("native", 9)):
        tabgpt(folder, "train", "--resume", "both", "--backend", backend, "--steps", steps)
    cpu, both = (
        [json.loads(line)["loss"] for line in (folder / run / "metrics.jsonl").open()]
        for run in ("cpu", "both")
    )
    assert both == pytest.approx(cpu, rel=GPU_BOUND)


SESSION = """
import json, numpy as np, tiny_run
from tabgpt.backends import open_session
from tabgpt.config import TrainConfig
from tabgpt.errors import BackendError
config, train = tiny_run.model_config(), TrainConfig(batch_size=2)
"""


def refusal(folder: Path, code: str, **more: str) -> str:
    """What the code, which must end in an error of the family, was told."""
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    program = f"{SESSION}\ntry:\n{body}\nexcept BackendError as error:\n    print(error)\n"
    more.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    done = python(program, folder, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_adapter_says_what_to_install(tmp_path: Path) -> None:
    nothing = tmp_path / "none.json"
    nothing.write_text('{"file_format_version": "1.0.0", "ICD": {"library_path": "none.so"}}')
    off = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(nothing))
    program = f"{SESSION}\ntry:\n    open_session('wgpu', config)\nexcept BackendError as e:\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}    print(e)\n"],
        env=tiny_run.environment(**off, PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "finds no GPU adapter" in done.stdout
    assert "mesa-vulkan-drivers" in done.stdout


def test_a_changed_access_mode_is_named_before_anything_is_made(folder: Path) -> None:
    said = refusal(
        folder,
        """
from tabgpt import shaders
real = shaders.kernel
def changed(name):
    kernel = real(name)
    if name != "adamw":
        return kernel
    code = kernel.code.replace("read> gradients", "read_write> gradients")
    return shaders.read(name, code)
shaders.kernel = changed
open_session("wgpu", config, train, mode="train")
""",
    )
    assert "adamw.wgsl declares 'gradients' as read_write, the plan binds it as read" in said


def test_a_model_beyond_the_adapters_limits_is_refused_with_what_fits(folder: Path) -> None:
    said = refusal(
        folder,
        """
from tabgpt.config import ModelConfig
for width in (128, 1024, 16384):
    large = ModelConfig(vocab_size=1000000, ctx=8, n_layer=1, n_head=8, d_model=width)
    open_session("wgpu", large, train, mode="infer").close()
""",
    )
    assert "transformer.wte.weight" in said
    assert "maxStorageBufferBindingSize is" in said
    assert "the largest d_model that fits is" in said


def test_no_memory_is_an_error_before_the_first_step(folder: Path) -> None:
    """The device refuses a buffer: a typed error that names it, and what was made is given back."""
    said = refusal(
        folder,
        """
import wgpu
from tabgpt.gpu import executor
from wgpu.backends.wgpu_native import GPUBuffer, GPUDevice
made, freed = [], []
real, destroy = GPUDevice.create_buffer, GPUBuffer.destroy
def create(self, *, label="", size, usage, **more):
    if label.startswith("activations"):
        raise wgpu.GPUOutOfMemoryError("not enough memory left")
    made.append(label)
    return real(self, label=label, size=size, usage=usage, **more)
def release(self):
    freed.append(self.label)
    destroy(self)
GPUDevice.create_buffer, GPUBuffer.destroy = create, release
try:
    open_session("wgpu", config, train, mode="train")
finally:
    print(sorted(made) == sorted(freed))
""",
    )
    assert said.startswith("True\n")
    assert "the GPU has no memory left for" in said
    assert "of activations.0" in said
    assert "use a smaller model or batch_size" in said


LOSE = """
import tabgpt
from tabgpt.gpu.executor import Executor
def train(lose_at, program):
    run = tabgpt.train(tiny_run.recipe(steps=20), "tiny.txt", backend="wgpu", out=program)
    real = Executor.run
    def lose(self, *names):
        real(self, *names)
        if run.step == lose_at and program in names:
            self._device.destroy()
    Executor.run = lose
    try:
        for event in run:
            if run.step == 8:
                run.save()
    finally:
        Executor.run = real
        print(run.step)
"""


@pytest.mark.parametrize("program", ["begin_step", "backward", "update"])
def test_a_lost_device_stops_the_run_and_leaves_its_checkpoint(folder: Path, program: str) -> None:
    """Wherever in a step it goes: no loss of that step is told; the CPU goes on from the file."""
    said = refusal(folder, f"{LOSE}\ntrain(12, {program!r})")
    at, message = said.split("\n", 1)
    assert at == "12"
    assert "the GPU was lost during " in message
    assert "what the run last saved is safe" in message
    assert len(losses(folder / program)) <= 13
    code = f"import tabgpt; run = tabgpt.resume({program!r}, backend='native'); print(run.step)"
    done = python(code, folder)
    assert done.stdout == "8\n", done.stderr


def test_submits_are_bounded_as_in_the_tab(folder: Path) -> None:
    """Each of as many commands as the tab's, and all of a program is submitted."""
    said = refusal(
        folder,
        """
from tabgpt.gpu.executor import ENTRIES_A_SUBMIT, Executor
encode, sizes = Executor._encode, []
def counted(self, encoder, commands):
    sizes.append(len(commands))
    encode(self, encoder, commands)
Executor._encode = counted
session = open_session("wgpu", config, train, np.arange(400) % 11, mode="train")
session.step()
programs = session._executor.programs
wanted = sum(len(programs[name]) for name in ("begin_step", "forward", "backward", "update"))
raise BackendError(f"{max(sizes)} {ENTRIES_A_SUBMIT} {sum(sizes) == wanted}")
""",
    )
    tab = (ROOT / "browser/src/gpu/executor.ts").read_text()
    (most,) = re.findall(r"ENTRIES_A_SUBMIT = (\d+)", tab)
    assert said == f"{most} {most} True\n"


def test_nothing_is_made_after_the_first_step(folder: Path) -> None:
    """Not even to read: a step, an evaluation, a token and a tensor use what is there."""
    said = refusal(
        folder,
        """
from wgpu.backends.wgpu_native import GPUDevice
session = open_session("wgpu", config, train, np.arange(400) % 11, mode="train")
session.init_weights()
def work():
    session.step()
    session.evaluate("val", 1)
    next(session.generate([1], 0.0))
    session.tensor("transformer.wte.weight")
work()
made = []
def counted(name):
    real = getattr(GPUDevice, name)
    def create(self, *values, **more):
        made.append(name)
        return real(self, *values, **more)
    setattr(GPUDevice, name, create)
for name in vars(GPUDevice).copy():
    if name.startswith(("create_", "_create_")) and name != "create_command_encoder":
        counted(name)
for _ in range(5):
    work()
raise BackendError(f"{made}")
""",
    )
    assert said == "[]\n"


def test_a_device_lost_while_it_does_something_else_is_told(folder: Path) -> None:
    """Evaluating, writing, reading for a save: each says that it was lost, and what is safe."""
    said = refusal(
        folder,
        """
from itertools import islice
def lose(work):
    session = open_session("wgpu", config, train, np.arange(400) % 11, mode="train")
    session.init_weights()
    work(session)
    session._executor._device.destroy()
    try:
        work(session)
    except BackendError as error:
        print(error)
lose(lambda session: session.evaluate("val"))
lose(lambda session: list(islice(session.generate([1], 0.0), 2)))
lose(lambda session: session.tensor("m:transformer.wte.weight"))
lose(lambda session: session.logits(np.ones((1, 3), int)))
""",
    )
    lines = said.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("the GPU was lost during ")
        assert "what the run last saved is safe" in line


def test_a_ctrl_c_while_it_waits_for_the_gpu_leaves_it_usable(folder: Path) -> None:
    """The run that is interrupted so is saved next, by more reads."""
    said = refusal(
        folder,
        """
session = open_session("wgpu", config, train, np.arange(400) % 11, mode="train")
session.init_weights()
Buffer = type(session._executor._readback._staging)
map_sync = Buffer.map_sync
def interrupted(self, *values):
    Buffer.map_sync = map_sync
    map_sync(self, *values)
    raise KeyboardInterrupt
Buffer.map_sync = interrupted
try:
    session.evaluate("val")
except KeyboardInterrupt:
    print("interrupted")
session.step()
print(np.isfinite(session.tensor("transformer.wte.weight")).all())
raise BackendError("done")
""",
    )
    assert said == "interrupted\nTrue\ndone\n"
