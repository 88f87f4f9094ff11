"""`tabgpt bench`: how fast a GPU runs the kernels, and whether it runs them right."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import BackendError, ConfigError
from .interrupt import Interrupt

app = typer.Typer(
    no_args_is_help=True,
    help="Measure and check a GPU's kernels, through the package wgpu.",
)


def command_text() -> str:
    """What to type to repeat this."""
    return shlex.join(["tabgpt", *sys.argv[1:]])


@app.command()
def kernels(
    group: Annotated[
        list[str] | None,
        typer.Option(help="cube, training, attention or step; may be given again.", metavar="NAME"),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Part of a case's name, e.g. NN, or of a preset's.", metavar="TEXT"),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="A kernel alone, e.g. tiled; may be given again.", metavar="NAME"),
    ] = None,
    most: Annotated[
        int,
        typer.Option(help="Largest context, or cube of as much work.", metavar="N", min=1),
    ] = 4096,
    experimental: Annotated[
        bool,
        typer.Option("--experimental", help="Kernels too that training never uses.", metavar=""),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Short samples: shows that all works.", metavar=""),
    ] = False,
    peak_tflops: Annotated[
        float | None,
        typer.Option(
            help="The GPU's float32 peak, for a column of shares of it.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the record here.", metavar="FILE", show_default=False),
    ] = None,
) -> None:
    """Time every kernel at every size, checked in the same run.

    A wrong kernel's speed is not shown. Ctrl-C ends the sweep with what it has.

    Example: tabgpt bench kernels --group cube --peak-tflops 16 --out kernels.json
    """
    from .gpu.adapter import find_adapter
    from .sweep import record, table
    from .sweep.run import Selection, run
    from .sweep.stage import Row, Stage

    if peak_tflops is not None and not peak_tflops > 0:
        raise ConfigError(f"--peak-tflops is {peak_tflops:g}; it must be above 0")
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.absolute().parent}")
    peak = None if peak_tflops is None else peak_tflops * 1e12
    selection = Selection(
        groups=group or (),
        cases=case or (),
        kernels=kernel or (),
        most=most,
        experimental=experimental,
        quick=quick,
    )
    interrupt = Interrupt()
    stage = Stage(find_adapter(), selection.rules(), lambda: interrupt.asked)
    rows: list[Row] = []

    def begin(name: str, number: int, total: int) -> None:
        print(f"[{number + 1}/{total}] {name}", file=sys.stderr, flush=True)

    def done(new: list[Row]) -> None:
        rows.extend(new)
        for row in new:
            print(table.line(row, rows, peak), flush=True)

    try:
        print(stage.adapter.name)
        print(table.HEAD + (table.PEAK_HEAD if peak is not None else ""))
        run(stage, selection, begin, done)
        made = record.record(stage, rows, command_text(), interrupt.asked)
    finally:
        stage.close()
    clock = made["clock"]
    if clock["gpu_quantum_s"] is not None:
        print(f"timestamps in steps of {clock['gpu_quantum_s']:.3g} s", end="; ")
    print(f"wall clock in steps of {clock['wall_quantum_s']:.3g} s")
    print(made["verdict"]["why"])
    if out is not None and rows:
        record.write(out, made)
        print(f"record {out}")
    if interrupt.asked:
        raise typer.Exit(interrupt.status)
    if not made["verdict"]["ok"]:
        raise typer.Exit(1)


@app.command()
def check(
    variants: Annotated[
        str,
        typer.Option(
            help='Kernels, e.g. "matmul=naive attention=plain".',
            show_default="the core's choice",
        ),
    ] = "",
) -> None:
    """Compare a training step on the GPU with the native core, tensor by tensor."""
    from .gpu.adapter import find_adapter
    from .gpu.check import check_gpu

    result = check_gpu(variants)
    print(f"{find_adapter().name}: largest error {result.worst:.3f} of its bound, in {result.name}")
    if not result.ok:
        raise BackendError(f"this GPU computes {result.name} wrong; train with another backend")
