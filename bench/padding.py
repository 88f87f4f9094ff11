"""Products whose rows are no multiple of 4, padded for matmul_vec4 or not: python bench/padding.py

The plan gives them to matmul_blocked4, which reads word by word. The other way copies A and
B with rows and columns filled up by zeros to a multiple of 4, multiplies those by matmul_vec4
and cuts the result; its time is that of all four passes. Both ways are checked by the core.
For three GPUs the ratio is counted (matmul_counts.py), with what the copies move and without
what launching them costs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import command
import numpy as np
import pairs
import record
import wgpu
from attention_counts import GPUS, Gpu
from matmul_counts import KERNELS, Sizes, floor_ms

sys.path.insert(0, str(record.ROOT / "tests"))

import vulkan
from tabgpt.backends.native import _core
from tabgpt.gpu.adapter import BINDING, BUFFER, find_adapter
from tabgpt.gpu.executor import Executor

OPS = (
    *(f"matmul {form} 513 513 513" for form in ("NN", "NT", "TN")),
    *("matmul NN 769 129 385", "matmul NT 769 385 129", "matmul TN 129 769 385"),
    *("matmul NN 768 65 128", "matmul TN 65 768 128"),
)
"""A cube; the products of nanogpt-cpu's layers with every size 1 larger; its vocabulary's two."""

RESIZE = """
struct Params { rows: u32, columns: u32, to_rows: u32, to_columns: u32, }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let step = 256u * groups.x;
  for (var i = id.x; i < p.to_rows * p.to_columns; i = i + step) {
    let row = i / p.to_columns;
    let column = i % p.to_columns;
    var value = 0.0;
    if (row < p.rows && column < p.columns) {
      value = x[row * p.columns + column];
    }
    out[i] = value;
  }
}
"""
"""[rows,columns] with rows and columns of zeros added, or cut off."""
MOST_GROUPS = 4096

Shape = tuple[int, int]


def padded(size: int) -> int:
    return -(-size // 4) * 4


class Product:
    """An operation by one kernel on the device, its inputs there."""

    def __init__(self, device: Any, limits: dict[str, int], text: str, kernel: str) -> None:
        self._device = device
        self._choice = f"matmul={kernel}"
        self._op = _core.GpuOp(text)
        plan = json.loads(self._op.plan(self._choice, limits[BINDING], limits[BUFFER]))
        self.executor = Executor(plan, device, owns_device=False)
        for name in ("A", "B"):
            values = np.empty(self.shape(name), np.float32)
            self._op.input(name, values)
            self.executor.write(name, values)

    def shape(self, name: str) -> Shape:
        rows, columns = self.executor.tensors[name]["shape"]
        return rows, columns

    def run(self) -> None:
        self.executor.run("run")

    def wait(self) -> None:
        """Reads one number: wgpu-py's own way to wait for a queue fails in version 0.32."""
        out = self.executor.tensors["out"]
        self.executor.read_bytes(out["buffer"], out["offset"], 4)

    def error(self) -> float:
        """Of what lies in `out`, as a share of the bound."""
        return float(self._op.check(self._choice, "out", self.executor.read("out")))


class Resize:
    """The pass that pads or cuts, between two tensors."""

    def __init__(self, device: Any, source: Product, target: Product, name: str) -> None:
        self._device = device
        module = device.create_shader_module(code=RESIZE)
        self._pipeline = device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        sizes = np.array([*source.shape(name), *target.shape(name)], np.uint32)
        params = device.create_buffer_with_data(data=sizes, usage=wgpu.BufferUsage.UNIFORM)
        ends = (product.executor.resource(name) for product in (source, target))
        resources = [{"buffer": params}, *ends]
        entries = [{"binding": i, "resource": resource} for i, resource in enumerate(resources)]
        layout = self._pipeline.get_bind_group_layout(0)
        self._group = device.create_bind_group(layout=layout, entries=entries)
        self._groups = min(MOST_GROUPS, -(-int(np.prod(target.shape(name))) // 256))

    def run(self) -> None:
        encoder = self._device.create_command_encoder()
        one = encoder.begin_compute_pass()
        one.set_pipeline(self._pipeline)
        one.set_bind_group(0, self._group)
        one.dispatch_workgroups(self._groups)
        one.end()
        self._device.queue.submit([encoder.finish()])


def counted(gpu: Gpu, M: int, K: int, N: int) -> float:
    """Speed padded / speed as it is, by floors."""
    m, k, n = map(padded, (M, K, N))
    copied = sum(a * b for a, b in ((M, K), (K, N), (M, N), (m, k), (k, n), (m, n)))
    copies_ms = 1e3 * 4.0 * copied / (gpu.gb_s * 1e9)
    plain = floor_ms(KERNELS["blocked4"], Sizes(M, N, K, 1), gpu)
    return plain / (floor_ms(KERNELS["vec4"], Sizes(m, n, k, 1), gpu) + copies_ms)


@contextmanager
def opened() -> Iterator[tuple[Any, dict[str, int], dict[str, Any]]]:
    """A device, its limits, and what a record says of it."""
    adapter = find_adapter()
    limits = {name: adapter.limit(name) for name in (BINDING, BUFFER)}
    device = adapter.device(limits)
    yield device, limits, {"adapter": adapter.name, "software_adapter": adapter.software}
    device.destroy()


def compare(
    device: Any, limits: dict[str, int], text: str, effort: command.Effort
) -> dict[str, Any]:
    """One product both ways, in turns; `ratio` is above 1 where padding is the faster one."""
    _, form, *sizes = text.split()
    M, K, N = map(int, sizes)
    plain = Product(device, limits, text, "blocked4")
    larger = f"matmul {form} {padded(M)} {padded(K)} {padded(N)}"
    vectors = Product(device, limits, larger, "vec4")
    passes = [Resize(device, plain, vectors, name) for name in ("A", "B")]
    cut = Resize(device, vectors, plain, "out")

    def as_it_is() -> None:
        plain.run()
        plain.wait()

    def by_padding() -> None:
        for one in (*passes, vectors, cut):
            one.run()
        plain.wait()

    as_it_is()
    errors = [plain.error()]
    by_padding()
    errors.append(plain.error())
    timed = pairs.compare(by_padding, as_it_is, pairs=effort.rounds, sample_s=effort.sample_s)
    for product in (plain, vectors):
        product.executor.close()
    predicted = {gpu.name: counted(gpu, M, K, N) for gpu in GPUS}
    return {"case": text, "error": command.worst(errors), "predicted": predicted, **timed}


def measure(effort: command.Effort) -> command.Outcome:
    os.environ.update(vulkan.environment())
    ops = ["matmul NN 33 18 21"] if effort.quick else OPS
    results = []
    print(
        "product: ratio padded / as it is (quartiles); counted for",
        *(g.name for g in GPUS),
        sep="  ",
    )
    with opened() as (device, limits, machine):
        for text in ops:
            row = compare(device, limits, text, effort)
            results.append(row)
            shares = (f"{ratio:.2f}" for ratio in row["predicted"].values())
            print(f"{text}: {command.shown(row['ratio'])}", *shares, sep="  ", flush=True)
    mean = pairs.geometric_mean(row["ratio"]["median"] for row in results)
    worst = command.worst(row["error"] for row in results)
    why = (
        f"padded / as it is: {mean:.3f}; largest share of the bound that a result used: {worst:.3f}"
    )
    return command.Outcome(results, worst <= 1, why, machine)


if __name__ == "__main__":
    command.run("padding", __doc__, command.Effort(rounds=9, sample_s=0.05), measure)
