"""Runs a plan that the core made (cpp/src/gpu/plan.hpp): buffers, pipelines, programs.

It computes nothing and decides nothing. browser/src/gpu/executor.ts is its twin in the tab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import wgpu
from numpy.typing import NDArray

from .. import shaders
from ..backends import check_shape
from ..errors import BackendError
from .readback import Readback

Array = NDArray[Any]
Command = dict[str, Any]

_ACCESS = {"uniform": "uniform", "read": "read-only-storage", "read_write": "storage"}
_DTYPES = {"f32": np.float32, "u32": np.uint32}


ENTRIES_A_SUBMIT = 48
"""Commands in one submit, as in the tab: drivers reset a GPU that is busy for about 2 s with one,
and the slowest kernels take some 10 ms each on hardware."""


def _line(error: Exception) -> str:
    """wgpu's texts, which have several lines, in one."""
    return " ".join(str(error).split())


class Executor:
    """A plan's buffers on a device, and its programs ready to run.

    Everything is made here, so that what does not fit is known before the first step;
    a pipeline or binding that the shader declares otherwise is refused by name. Pipelines are
    compiled one after the other: wgpu-native has no way to do it in the background, and
    wgpu-py's `create_compute_pipeline_async` waits for each.
    """

    def __init__(self, plan: dict[str, Any], device: Any, owns_device: bool = True) -> None:
        self._device = device
        self._owns_device = owns_device
        self._buffers: list[Any] = []
        self._readback: Readback | None = None
        self._names = [buffer["name"] for buffer in plan["buffers"]]
        try:
            with self._errors("the buffer to read back"):
                self._readback = Readback(device, max(b["bytes"] for b in plan["buffers"]))
            for buffer in plan["buffers"]:
                self._buffers.append(self._create_buffer(buffer))
            self._pipelines = self._create_pipelines(plan["pipelines"])
            self._binding_names = [
                [name for name, _ in shaders.kernel(planned["kernel"]).bindings]
                for planned in plan["pipelines"]
            ]
            self._groups: dict[Any, Any] = {}
            self.tensors: dict[str, dict[str, Any]] = {}
            self.programs: dict[str, list[Command]] = {}
            self.load(plan)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """WebGPU's errors join the package's one family; a lost device is told from a refusal."""
        try:
            yield
        except wgpu.GPUOutOfMemoryError as error:
            raise BackendError(
                f"the GPU has no memory left for {doing} ({_line(error)}); use a smaller model or "
                f"batch_size"
            ) from error
        except (wgpu.GPUError, RuntimeError) as error:  # the latter where a buffer cannot be mapped
            if self._readback is not None and not self._readback.answers():
                raise BackendError(
                    f"the GPU was lost during {doing} ({_line(error)}); what the run last saved is "
                    f"safe: go on from it with `tabgpt train --resume`, or with the backend "
                    f'"native"'
                ) from error
            raise BackendError(f"the GPU refused {doing}: {_line(error)}") from error

    def _create_buffer(self, buffer: dict[str, Any]) -> Any:
        use = wgpu.BufferUsage
        usage = use.COPY_SRC | use.COPY_DST
        for word in buffer["usage"].split():
            usage |= {"storage": use.STORAGE, "uniform": use.UNIFORM}[word]
        with self._errors(f"{buffer['bytes']} bytes of {buffer['name']}"):
            return self._device.create_buffer(
                label=buffer["name"], size=buffer["bytes"], usage=usage
            )

    def _create_pipelines(self, pipelines: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
        """(pipeline, its bind group layout) of each; a shader module serves all of its kernel's."""
        modules: dict[str, Any] = {}
        made = []
        for planned in pipelines:
            kernel = shaders.kernel(planned["kernel"])
            shaders.check_access(kernel, planned["bindings"])
            with self._errors(f"the kernel {kernel.name}"):
                if kernel.name not in modules:
                    modules[kernel.name] = self._device.create_shader_module(
                        label=kernel.name, code=kernel.code
                    )
                layout = self._device.create_bind_group_layout(
                    entries=[
                        {
                            "binding": number,
                            "visibility": wgpu.ShaderStage.COMPUTE,
                            "buffer": {"type": _ACCESS[access]},
                        }
                        for number, access in enumerate(planned["bindings"])
                    ]
                )
                pipeline = self._device.create_compute_pipeline(
                    label=kernel.name,
                    layout=self._device.create_pipeline_layout(bind_group_layouts=[layout]),
                    compute={
                        "module": modules[kernel.name],
                        "entry_point": "main",
                        "constants": planned["constants"],
                    },
                )
            made.append((pipeline, layout))
        return made

    def load(self, part: dict[str, Any]) -> None:
        """Tensors, words and programs of a plan, or of another batch shape; same names give way."""
        words = part["words"]
        self._write(words["buffer"], words["offset"], np.array(words["data"], np.uint32))
        self.tensors = self.tensors | part["tensors"]
        self.programs = self.programs | {
            name: [self._prepared(command) for command in commands]
            for name, commands in part["programs"].items()
        }
        used = {command.get("key") for program in self.programs.values() for command in program}
        self._groups = {key: group for key, group in self._groups.items() if key in used}

    def _prepared(self, command: Command) -> Command:
        """The command with its bind group; equal bindings share one."""
        if "pipeline" not in command:
            return command
        number, bindings = command["pipeline"], command["bindings"]
        key = number, tuple(map(tuple, bindings))
        if key not in self._groups:
            entries = [
                {
                    "binding": i,
                    "resource": {"buffer": self._buffers[buffer], "offset": offset, "size": size},
                }
                for i, (buffer, offset, size) in enumerate(bindings)
            ]
            with self._errors(f"the bindings of {command['label']}"):
                self._groups[key] = self._device.create_bind_group(
                    layout=self._pipelines[number][1], entries=entries
                )
        names = self._binding_names[number]
        return command | {"key": key, "group": self._groups[key], "names": names}

    def run(self, *names: str) -> None:
        """Submits programs, in order, a bounded piece at a time; does not wait for them."""
        commands = [command for name in names for command in self.programs[name]]
        with self._errors(f"the program {names[-1]}"):
            for begin in range(0, len(commands), ENTRIES_A_SUBMIT):
                encoder = self._device.create_command_encoder()
                self._encode(encoder, commands[begin : begin + ENTRIES_A_SUBMIT])
                self._device.queue.submit([encoder.finish()])

    def run_timed(self, program: str, calls: int, stamps: Any) -> None:
        """Submits dispatches `calls` times over, as one pass between two timestamps.

        stamps: a query set of two, or None. BackendError for a program that clears or copies.
        """
        commands = self.programs[program]
        if not all("pipeline" in command for command in commands):
            raise BackendError(f"the program {program} does more than dispatch: time it as a whole")
        with self._errors(f"the program {program}"):
            encoder = self._device.create_command_encoder()
            self._encode(encoder, commands * calls, stamps)
            self._device.queue.submit([encoder.finish()])

    def _encode(self, encoder: Any, commands: list[Command], stamps: Any = None) -> None:
        """Dispatches that follow each other share a pass; clears and copies stand between."""
        between = stamps and {
            "query_set": stamps,
            "beginning_of_pass_write_index": 0,
            "end_of_pass_write_index": 1,
        }
        pass_ = None
        for command in commands:
            if "pipeline" in command:
                if pass_ is None:
                    pass_ = encoder.begin_compute_pass(timestamp_writes=between)
                pass_.set_pipeline(self._pipelines[command["pipeline"]][0])
                pass_.set_bind_group(0, command["group"])
                pass_.dispatch_workgroups(*command["grid"])
                continue
            if pass_ is not None:
                pass_.end()
                pass_ = None
            if "clear" in command:
                buffer, offset, size = command["clear"]
                encoder.clear_buffer(self._buffers[buffer], offset, size)
            else:
                source, at, target, to, size = command["copy"]
                encoder.copy_buffer_to_buffer(
                    self._buffers[source], at, self._buffers[target], to, size
                )
        if pass_ is not None:
            pass_.end()

    def _write(self, buffer: int, offset: int, data: Any) -> None:
        with self._errors(f"an upload to {self._names[buffer]}"):
            self._device.queue.write_buffer(self._buffers[buffer], offset, data)

    def upload_inputs(self, data: bytes) -> None:
        """What the core filled for the pass that runs next."""
        self._write(self._names.index("inputs"), 0, data)

    def resource(self, name: str) -> dict[str, Any]:
        """A tensor as an entry of a bind group has it, for passes that no plan has."""
        tensor = self._tensor(name)
        size = 4 * int(np.prod(tensor["shape"]))
        return {
            "buffer": self._buffers[tensor["buffer"]],
            "offset": tensor["offset"],
            "size": size,
        }

    def write(self, name: str, value: Array) -> None:
        """Overwrites a tensor."""
        tensor = self._tensor(name)
        check_shape(name, tensor["shape"], value)
        data = np.ascontiguousarray(value, _DTYPES[tensor["type"]])
        self._write(tensor["buffer"], tensor["offset"], data)

    def read(self, name: str) -> Array:
        """A copy of a tensor, once all that was submitted is done."""
        tensor = self._tensor(name)
        shape = tensor["shape"]
        size = 4 * int(np.prod(shape, dtype=np.int64))
        data = self.read_bytes(tensor["buffer"], tensor["offset"], size)
        return np.frombuffer(data, _DTYPES[tensor["type"]]).reshape(shape).copy()

    def read_bytes(self, buffer: int, offset: int, size: int) -> Any:
        with self._errors(f"a read of {self._names[buffer]}"):
            assert self._readback is not None
            return self._readback.read(self._buffers[buffer], offset, size)

    def read_result(self, program: str, binding: str) -> Any:
        """The bytes of a binding of a program's last dispatch."""
        last = self.programs[program][-1]
        buffer, offset, size = last["bindings"][last["names"].index(binding)]
        return self.read_bytes(buffer, offset, size)

    def clear(self, names: Sequence[str]) -> None:
        """Zeroes in all buffers whose name's first part is one of these."""
        with self._errors("a clear"):
            encoder = self._device.create_command_encoder()
            for name, buffer in zip(self._names, self._buffers, strict=True):
                if name.partition(".")[0] in names:
                    encoder.clear_buffer(buffer)
            self._device.queue.submit([encoder.finish()])

    def _tensor(self, name: str) -> dict[str, Any]:
        if name not in self.tensors:
            raise BackendError(f"no tensor {name!r} in this plan")
        return self.tensors[name]

    def close(self) -> None:
        """Gives the device's memory back; safe to call twice."""
        for buffer in self._buffers:
            buffer.destroy()
        if self._readback is not None:
            self._readback.destroy()
        self._buffers, self._groups, self._pipelines = [], {}, []
        self.programs = {}
        if self._owns_device:
            self._device.destroy()
