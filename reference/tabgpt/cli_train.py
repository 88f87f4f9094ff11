"""`tabgpt train`: starting or resuming a run, and watching it to its end or a Ctrl-C."""

from __future__ import annotations

import math
from itertools import takewhile
from pathlib import Path
from typing import Any

from . import layout
from .api import decode_stream
from .checkpoint import MODEL_FILE, describe
from .config import DEFAULT_PRESET, FIELDS, preset
from .errors import ConfigError
from .interrupt import Interrupt
from .progress import Report
from .run import Run
from .train import resume
from .train import train as start


def start_run(
    corpus: Path | None,
    preset_name: str | None,
    values: dict[str, Any],
    out: Path | None,
    overwrite: bool,
    backend: str,
    threads: int | None,
    tune: bool,
) -> Run:
    """A new run in `out`, by default runs/PRESET."""
    name = preset_name or DEFAULT_PRESET
    recipe = preset(name, **values)
    out = out or Path("runs") / name
    return start(
        recipe,
        corpus,
        backend=backend,
        threads=threads,
        out=out,
        overwrite=overwrite,
        tune=tune,
    )


def resume_run(
    folder: Path,
    corpus: Path | None,
    values: dict[str, Any],
    extend_to: int | None,
    backend: str | None,
    threads: int | None,
    tune: bool,
) -> Run:
    """The run in `folder`; hyper-parameters given again must be the run's own."""
    steps = values.pop("steps", None)
    if extend_to is not None:
        extend_to = FIELDS["steps"].check(extend_to)
    if values:
        about = describe(folder)
        of_run = about.config.to_dict()
        for part in (about.train, about.run):
            of_run |= part.to_dict() if part is not None else {}
        for name, value in values.items():
            if FIELDS[name].check(value) != of_run.get(name):
                raise ConfigError(
                    f"{name} is {value}, and the run in {folder} has {of_run.get(name)}: a run "
                    f"keeps its hyper-parameters; leave the option out, or start another run"
                )
    return resume(
        folder,
        corpus,
        backend=backend,
        threads=threads,
        steps=steps,
        extend_to=extend_to,
        tune=tune,
    )


def watch(run: Run) -> int:
    """Trains to the end or to a Ctrl-C; returns the exit status (128 + signal, as shells do)."""
    if run.done():
        print(f"This run has done its {run.train.steps} steps; --extend-to N goes on to step N.")
        run.close()
        return 0
    # an evaluation may take minutes, and is made up for
    interrupt = Interrupt(may_wait=lambda: not run.evaluating)
    _describe(run)
    report = Report(run.step, run.train.steps)
    run.tell = report.note
    try:
        for metrics in run:
            report.show(metrics)
            if interrupt.asked:
                break
            if run.run.sample_interval and run.step % run.run.sample_interval == 0:
                report.say(f"--- sample ---\n{_sample(run, interrupt)}\n--------------")
    except KeyboardInterrupt:
        if not interrupt.asked:
            raise
    except (OSError, SystemExit):
        run.save()  # nobody reads what is printed: `| head`, for which rich raises SystemExit
        raise
    finally:
        report.close()
    if run.done():
        print(f"Finished: {run.train.steps} steps. Write with it: tabgpt sample {run.out}")
        run.close()
        return 0
    run.save()
    run.close()
    print(f"Saved step {run.step} of {run.train.steps}. Go on: tabgpt train --resume {run.out}")
    return interrupt.status


def _describe(run: Run) -> None:
    model = run.model.config
    parameters = sum(math.prod(tensor.shape) for tensor in layout.tensors(model))
    total = run.model.session.memory()["total"]
    print(
        f"{parameters:,} parameters ({model.n_layer} layers, {model.n_head} heads, d_model "
        f"{model.d_model}, ctx {model.ctx}, vocabulary {model.vocab_size}), "
        f"{total / 2**20:,.1f} MiB of memory, "
        f"backend {run.model.backend} ({run.model.session.device})"
    )
    print(f"corpus {run.corpus.name}, {len(run.corpus.raw):,} bytes")
    if run.out is not None:
        print(f"checkpoint {run.out / MODEL_FILE}")
    if run.step:
        print(f"resuming after step {run.step} of {run.train.steps}")


def _sample(run: Run, interrupt: Interrupt) -> str:
    ids = takewhile(lambda _: not interrupt.asked, run.model.stream())
    return "".join(decode_stream(run.model.tokenizer, ids))
