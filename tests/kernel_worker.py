"""Runs single kernels through wgpu-py (Naga) for tests/kernel_runner.py.

kernel_worker.ts does the same through Dawn (Tint). A process of its own, because Naga may
abort: that is one failed test then. The device has WebGPU's default limits, not the
adapter's, so that a kernel that needs more fails here; it has the features that a kernel
may name by `//! enable`, as far as the adapter does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, BinaryIO

import numpy as np
import wgpu

SOURCE: BinaryIO = sys.stdin.buffer
SINK: BinaryIO = sys.stdout.buffer

LIMITS = {
    "max-storage-buffers-per-shader-stage": 8,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-workgroups-per-dimension": 65535,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-buffer-size": 256 << 20,
}
FEATURES = {"shader-f16": "shader-f16", "subgroup": "subgroups"}
"""What a kernel may need: wgpu-py's name -> WebGPU's."""
LAYOUT = {"uniform": "uniform", "read": "read-only-storage", "read_write": "storage"}


@cache
def device() -> Any:
    adapters = wgpu.gpu.enumerate_adapters_sync()
    vulkan = [a for a in adapters if a.info["backend_type"] == "Vulkan"]
    if not vulkan:
        raise RuntimeError("no Vulkan adapter; run `make vulkan`")
    features = [name for name in FEATURES if name in vulkan[0].features]
    return vulkan[0].request_device_sync(required_limits=LIMITS, required_features=features)


@cache
def pipeline(code: str, constants: tuple[tuple[str, int], ...], modes: tuple[str, ...]) -> Any:
    """(pipeline, layout of its one bind group)."""
    layout = device().create_bind_group_layout(
        entries=[
            {"binding": i, "visibility": "COMPUTE", "buffer": {"type": LAYOUT[mode]}}
            for i, mode in enumerate(modes)
        ]
    )
    compiled = device().create_compute_pipeline(
        layout=device().create_pipeline_layout(bind_group_layouts=[layout]),
        compute={
            "module": device().create_shader_module(code=code),
            "entry_point": "main",
            "constants": dict(constants),
        },
    )
    return compiled, layout


def compile(call: dict[str, Any]) -> Any:
    modes = tuple(mode for mode, _ in call["bindings"])
    return pipeline(call["code"], tuple(call["constants"].items()), modes)


def run(args: dict[str, Any], data: Sequence[bytes]) -> list[np.ndarray]:
    """Uploads all data, runs args["dispatches"] in order, reads args["outputs"]."""
    usage = "STORAGE|UNIFORM|COPY_SRC"
    buffers = [
        device().create_buffer_with_data(data=item + bytes(-len(item) % 16), usage=usage)
        for item in data
    ]
    encoder = device().create_command_encoder()
    pass_ = encoder.begin_compute_pass()
    for call in args["dispatches"]:
        indices = [index for _, index in call["bindings"]]
        compiled, layout = compile(call)
        entries = [
            {"binding": i, "resource": {"buffer": buffers[index]}}
            for i, index in enumerate(indices)
        ]
        pass_.set_pipeline(compiled)
        pass_.set_bind_group(0, device().create_bind_group(layout=layout, entries=entries))
        pass_.dispatch_workgroups(*call["grid"])
    pass_.end()
    device().queue.submit([encoder.finish()])
    return [
        np.frombuffer(device().queue.read_buffer(buffers[index], size=size), np.float32)
        for index, size in args["outputs"]
    ]


def main() -> None:
    while line := SOURCE.readline():
        request = json.loads(line)
        data = [SOURCE.read(n) for n in request["bytes"]]
        arrays: list[np.ndarray] = []
        try:
            result = None
            match request["call"]:
                case "about":
                    result = dict(device().adapter.info)
                case "features":
                    result = [FEATURES[name] for name in FEATURES if name in device().features]
                case "compile":
                    compile(request["args"])
                case "run":
                    arrays = run(request["args"], data)
            headers = [{"dtype": "float32", "shape": array.shape} for array in arrays]
            reply = {"result": result, "arrays": headers}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        SINK.write(json.dumps(reply).encode() + b"\n")
        for array in arrays:
            SINK.write(array.tobytes())
        SINK.flush()


if __name__ == "__main__":
    main()
