"""Bit for bit: any number of threads, and a run that was stopped, killed or never interrupted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import trajectory
from case import Case
from cases import CASES
from remote import BUILDS, NATIVE, THREADED, Remote
from resuming import STATE, assert_resumes_exactly, state, steps
from run_case import run_case
from tabgpt.config import ModelConfig, TrainConfig
from trajectory import MODEL, TRAIN

THREADS = (1, 2, 3, 8)
LARGEST = {case.op: case for case in sorted(CASES, key=lambda case: case.bytes())}


@pytest.fixture(params=THREADED)
def threaded(request: pytest.FixtureRequest, remotes: Callable[[str], Remote]) -> Remote:
    """Each build that has threads."""
    return remotes(request.param)


def test_build_is_the_one_asked_for(core: Remote) -> None:
    about = core("about")
    assert about["isa"] == core.name.removeprefix("native-").removesuffix("-64").removesuffix(
        "-threads"
    )
    assert about["hasThreads"] == (core.name in THREADED)


def test_training_does_not_depend_on_threads(threaded: Remote) -> None:
    """Ten steps with dropout, accumulation and clipping, whole evaluation, and sampling."""
    seen = []
    for n in THREADS:
        session = threaded.open(MODEL, TRAIN, trajectory.tokens(), threads=n)
        trajectory.start(session)
        metrics = steps(session, 10)
        rest = session.evaluate("val"), session.sample([1, 2, 3], 40, seed=9)
        seen.append((metrics, rest, state(session)))
        session.close()
    for n, other in zip(THREADS[1:], seen[1:], strict=True):
        assert other[0] == seen[0][0], f"metrics differ between 1 and {n} threads"
        assert other[1] == seen[0][1], f"evaluation or sampling differs between 1 and {n} threads"
        assert other[2] == seen[0][2], f"weights or moments differ between 1 and {n} threads"


@pytest.mark.parametrize("n", THREADS)
def test_every_thread_gets_tiles(threaded: Remote, n: int) -> None:
    """Tiles go to whoever is free, so a model is taken whose products outlast a thread's waking."""
    model = ModelConfig(vocab_size=65, ctx=64, n_layer=1, n_head=4, d_model=192)
    corpus = np.random.default_rng(1).integers(65, size=1000)
    session = threaded.open(model, TrainConfig(batch_size=16), corpus, threads=n)
    session.init_weights()
    for _ in range(40):
        session.step()
        tiles = session.tiles()
        if min(tiles) > 0:
            break
    session.close()
    assert len(tiles) == n
    assert min(tiles) > 0, f"tiles by thread after 40 steps: {tiles}"


@pytest.mark.parametrize("case", LARGEST.values(), ids=LARGEST)
def test_kernel_does_not_depend_on_threads(remotes: Callable[[str], Remote], case: Case) -> None:
    """Native only: a WASM instance starts its threads once, and sessions above used them."""
    core = remotes(NATIVE[0])
    alone = run_case(core, case)
    for n in THREADS[1:]:
        for name, got in run_case(core, case, n).items():
            assert got.tobytes() == alone[name].tobytes(), f"{name} with {n} threads"


def test_stop_and_resume_is_exact(core: Remote) -> None:
    """What a checkpoint keeps is enough: weights, moments, step number, config and corpus."""
    assert_resumes_exactly(core, before=7, after=5)


@pytest.mark.parametrize("name", BUILDS)
def test_kill_and_resume_is_exact(name: str) -> None:
    """As above, but the process is killed in between and another one goes on."""
    first = Remote(name)
    session = first.open(MODEL, TRAIN, trajectory.tokens())
    trajectory.start(session)
    steps(session, 4)
    saved = {n: session.tensor(n) for n in session.names() if n.startswith(STATE)}
    later = steps(session, 3)
    first.kill()

    second = Remote(name)
    try:
        resumed = second.open(MODEL, TRAIN, trajectory.tokens())
        for tensor, value in saved.items():
            resumed.set(tensor, value)
        resumed.step_number = 4
        assert steps(resumed, 3) == later
    finally:
        second.stop()


def test_evaluation_and_sampling_leave_training_alone(core: Remote) -> None:
    """A run that evaluates and writes samples on the way ends at the same bits."""
    finals = []
    for looks in (False, True):
        session = core.open(MODEL, TRAIN, trajectory.tokens())
        trajectory.start(session)
        metrics = []
        for _ in range(4):
            metrics += steps(session, 1)
            if looks:
                session.evaluate("val", 2)
                session.sample([0], 5)
                session.logits(np.zeros((2, 3), np.uint32))
        finals.append((metrics, state(session)))
        session.close()
    assert finals[0] == finals[1]
