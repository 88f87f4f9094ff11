"""The builds under test, and a table of the largest errors at the end of the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from remote import BUILDS, Remote

_LARGEST: dict[tuple[str, str], tuple[float, str]] = defaultdict(lambda: (0.0, ""))


@pytest.fixture(scope="session")
def remotes() -> Iterator[Callable[[str], Remote]]:
    """A build's process by name, started when it is first asked for."""
    running: dict[str, Remote] = {}

    def remote(name: str) -> Remote:
        if name not in running or not running[name].alive:
            running[name] = Remote(name)
        return running[name]

    yield remote
    for process in running.values():
        process.stop()


@pytest.fixture(params=BUILDS)
def core(request: pytest.FixtureRequest, remotes: Callable[[str], Remote]) -> Remote:
    """Each build of the core in turn."""
    return remotes(request.param)


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str, str, float, str], None]:
    """Notes an error as a share of its bound: measured(level, build, share, where)."""

    def note(level: str, build: str, share: float, where: str) -> None:
        key = level, build
        _LARGEST[key] = max(_LARGEST[key], (share, where))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _LARGEST:
        terminalreporter.section("parity: largest error as a share of its bound")
    for (level, build), (share, where) in sorted(_LARGEST.items()):
        terminalreporter.write_line(f"{level:<11} {build:<20} {share:.3f}  {where}")
