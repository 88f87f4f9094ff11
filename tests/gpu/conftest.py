"""A process for each shader compiler and executor, and how their errors are noted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from kernel_runner import COMPILERS, Kernels
from remote import GPU_BUILDS, CoreError, Remote


@pytest.fixture(scope="session")
def processes() -> Iterator[Callable[[str], Kernels]]:
    """By compiler; started when first asked for, and again after a crash.

    Skips where there is no adapter, unless TABGPT_NEEDS_GPU is set, as .ci/run does.
    """
    running: dict[str, Kernels] = {}

    def process(compiler: str) -> Kernels:
        if compiler not in running or not running[compiler].alive:
            running[compiler] = Kernels(compiler)
            try:
                running[compiler]("about")
            except CoreError as error:
                if os.environ.get("TABGPT_NEEDS_GPU"):
                    raise
                pytest.skip(str(error))
        return running[compiler]

    yield process
    for each in running.values():
        each.stop()


@pytest.fixture(params=COMPILERS)
def kernels(request: pytest.FixtureRequest, processes: Callable[[str], Kernels]) -> Kernels:
    """Each compiler in turn."""
    return processes(request.param)


@pytest.fixture(scope="module", params=GPU_BUILDS)
def gpu(request: pytest.FixtureRequest) -> Iterator[Remote]:
    """Each executor's process. Skips where there is no adapter, unless TABGPT_NEEDS_GPU is set."""
    process = Remote(request.param)
    try:
        process("about")
    except (CoreError, RuntimeError) as error:  # the latter where Dawn's process ends
        if os.environ.get("TABGPT_NEEDS_GPU"):
            raise
        pytest.skip(str(error))
    yield process
    process.stop()


@pytest.fixture
def measured(largest: Callable[..., None]) -> Callable[[str, float, str], None]:
    """Notes an error as a share of its bound: measured(compiler, share, where)."""

    def note(compiler: str, share: float, where: str) -> None:
        group = where.split("-")[0].split(" ")[0]
        largest("GPU kernels", f"{compiler:<5}", share, where, group)

    return note
