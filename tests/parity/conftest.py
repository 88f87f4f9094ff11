"""The builds under test, and how their errors are noted for the table at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from remote import BUILDS, Remote


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
def measured(largest: Callable[..., None]) -> Callable[[str, str, float, str], None]:
    """Notes an error as a share of its bound: measured(level, build, share, where)."""

    def note(level: str, build: str, share: float, where: str) -> None:
        largest("parity", f"{level:<11} {build:<20}", share, where)

    return note
