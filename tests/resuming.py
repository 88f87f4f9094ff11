"""A run's state to the last bit, and what it takes to go on from it."""

from __future__ import annotations

import trajectory
from remote import Remote, RemoteSession
from trajectory import MODEL, TRAIN

STATE = ("transformer.", "m:", "v:")
"""Parameters and moments: with step number, config and corpus, all that a checkpoint keeps."""


def state(session: RemoteSession) -> dict[str, bytes]:
    names = [name for name in session.names() if name.startswith(STATE)]
    return {name: session.tensor(name).tobytes() for name in names}


def steps(session: RemoteSession, n: int) -> list[tuple]:
    return [tuple(session.step()) for _ in range(n)]


def assert_resumes_exactly(build: Remote, before: int, after: int, variants: str = "") -> None:
    """A session filled with the state after `before` steps does the next ones bit for bit."""
    whole = build.open(MODEL, TRAIN, trajectory.tokens(), variants=variants)
    trajectory.start(whole)
    steps(whole, before)
    saved = {name: whole.tensor(name) for name in whole.names() if name.startswith(STATE)}
    later = steps(whole, after)
    resumed = build.open(MODEL, TRAIN, trajectory.tokens(), variants=variants)
    for name, value in saved.items():
        resumed.set(name, value)
    resumed.step_number = before
    assert steps(resumed, after) == later
    assert state(resumed) == state(whole)
    whole.close()
    resumed.close()
