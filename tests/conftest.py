"""One thread for numpy, and tables of the largest errors at the end of a run.

Products are small here, and the builds under test want the cores. What a test measured goes
with its report: `make test` runs the tests in several processes, and one of them prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PROPERTY = "largest error"
"""Of a test's report; its values are (title, row, group, share, where)."""

_LARGEST: dict[tuple[str, str, str], tuple[float, str]] = {}


@pytest.fixture
def largest(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Notes an error as a share of its bound: largest(title, row, share, where, group="").

    The table of that title gets a line for each row and group, with the largest share of all tests.
    """
    worst: dict[tuple[str, str, str], tuple[float, str]] = {}

    def note(title: str, row: str, share: float, where: str, group: str = "") -> None:
        key = title, row, group
        worst[key] = max(worst.get(key, (0.0, "")), (float(share), where))

    yield note
    request.node.user_properties.extend((PROPERTY, (*key, *most)) for key, most in worst.items())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == PROPERTY:
                *key, share, where = value
                most = _LARGEST.get(tuple(key), (0.0, ""))
                _LARGEST[tuple(key)] = max(most, (share, where))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shown = ""
    for (title, row, _), (share, where) in sorted(_LARGEST.items()):
        if title != shown:
            terminalreporter.section(f"{title}: largest error as a share of its bound")
            shown = title
        terminalreporter.write_line(f"{row} {share:.3f}  {where}")
