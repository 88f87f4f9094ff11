"""Runs in Pyodide: the 50-step trajectory by the oracle and by the core, both there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import trajectory
from tabgpt.backends import open_session

sessions = {
    backend: open_session(
        backend, trajectory.MODEL, trajectory.TRAIN, trajectory.tokens(), "train", threads
    )
    for backend, threads in (("numpy", None), ("native", 1))
}
oracle, core = (trajectory.run(session) for session in sessions.values())
print(
    json.dumps(
        {
            "losses": oracle.losses.tolist(),
            "val_loss": oracle.val_loss,
            "distance": core.distance(oracle),
        }
    )
)
