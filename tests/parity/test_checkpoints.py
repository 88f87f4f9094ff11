"""A run saved by any backend goes on in any other, and other programs read what each one saved.

The files themselves (damage, odd inputs, transformers' own) are tests/checkpoint's
and tests/interop's affair.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import trajectory
from remote import NATIVE, RemoteSession
from tabgpt import checkpoint as checkpoints
from tabgpt import layout
from tabgpt.backends.numpy import NumpySession
from tabgpt.config import RunConfig
from trajectory import BOUND, MODEL, TRAIN

BACKENDS = ["numpy", NATIVE[0], "wasm-scalar", "wasm-relaxed-threads"]
SAVED, LATER = 6, 6  # steps before the save and after it
NAMES = [tensor.name for tensor in layout.tensors(MODEL)]
MOMENTS = [f"{role}:{name}" for role in ("m", "v") for name in NAMES]

Session = NumpySession | RemoteSession


def open_session(remotes, backend: str) -> Session:
    if backend == "numpy":
        return NumpySession(MODEL, TRAIN, trajectory.tokens(), "train")
    return remotes(backend).open(MODEL, TRAIN, trajectory.tokens())


def save(session: Session, backend: str, folder: Path) -> None:
    """By the package, or for WASM by the page's code."""
    if backend.startswith("wasm"):
        info = {"model": asdict(MODEL), "train": asdict(TRAIN), "run": asdict(RunConfig())}
        rest = {"tokenizer": {"kind": "none"}, "corpus": None, "step": session.step_number}
        session._call("save", folder=str(folder), info=info | rest)
        return
    weights, moments = (
        {name: np.array(session.tensor(name)) for name in names} for names in (NAMES, MOMENTS)
    )
    step = session.step_number
    checkpoints.save(
        folder,
        checkpoints.Checkpoint(
            MODEL, weights, train=TRAIN, run=RunConfig(), step=step, moments=moments
        ),
    )


def load(session: Session, backend: str, folder: Path) -> None:
    if backend.startswith("wasm"):
        info = session._call("load", folder=str(folder))
        assert info["model"] == asdict(MODEL) and info["train"] == asdict(TRAIN)
        return
    read = checkpoints.load(folder, moments=True)
    assert (read.config, read.train) == (MODEL, TRAIN)
    assert read.moments is not None
    for name, value in (read.tensors | read.moments).items():
        session.set(name, value)
    session.step_number = read.step


@pytest.fixture(scope="module")
def saved(remotes, tmp_path_factory) -> dict[str, Path]:
    """A folder by each backend, after the same SAVED steps."""
    folders = {}
    for backend in BACKENDS:
        session = open_session(remotes, backend)
        trajectory.start(session)
        for _ in range(SAVED):
            session.step()
        folders[backend] = tmp_path_factory.mktemp("run") / backend
        save(session, backend, folders[backend])
        session.close()
    return folders


@cache
def uninterrupted() -> tuple[np.ndarray, np.ndarray]:
    """The oracle's later losses [LATER], and its logits [1,4,V] at the save."""
    session = NumpySession(MODEL, TRAIN, trajectory.tokens(), "train")
    trajectory.start(session)
    for _ in range(SAVED):
        session.step()
    logits = session.logits(IDS)
    return np.array([session.step().loss for _ in range(LATER)]), logits


IDS = np.array([[3, 1, 4, 1]])


@pytest.mark.parametrize("reader", BACKENDS)
@pytest.mark.parametrize("writer", BACKENDS)
def test_a_run_goes_on_in_another_backend(remotes, saved, writer: str, reader: str) -> None:
    session = open_session(remotes, reader)
    load(session, reader, saved[writer])
    losses = [session.step().loss for _ in range(LATER)]
    session.close()
    assert losses == pytest.approx(uninterrupted()[0], rel=BOUND)


@pytest.mark.parametrize("writer", BACKENDS)
def test_safetensors_reads_it(saved, writer: str) -> None:
    """The library, without any code of ours."""
    weights = safetensors.numpy.load_file(saved[writer] / "model.safetensors")
    moments = safetensors.numpy.load_file(saved[writer] / f"optimizer-{SAVED:06d}.safetensors")
    assert sorted(weights) == sorted(NAMES)
    assert sorted(moments) == sorted(MOMENTS)
    dtype = np.float64 if writer == "numpy" else np.float32
    for tensor in layout.tensors(MODEL):
        assert weights[tensor.name].shape == tensor.shape
        assert weights[tensor.name].dtype == dtype


@pytest.mark.parametrize("writer", BACKENDS)
def test_transformers_reads_it(saved, writer: str) -> None:
    try:
        import torch
        import transformers
    except ImportError as error:
        reason = f"{error}: pip install 'tabgpt[interop]' runs this comparison"
        if os.environ.get("TABGPT_REQUIRE_INTEROP") == "1":
            pytest.fail(f"TABGPT_REQUIRE_INTEROP=1, but {reason}")
        pytest.skip(reason)
    theirs, about = transformers.GPT2LMHeadModel.from_pretrained(
        saved[writer], output_loading_info=True
    )
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        logits = theirs.eval()(torch.from_numpy(IDS)).logits.double().numpy()
    np.testing.assert_allclose(logits, uninterrupted()[1], atol=1e-5)
