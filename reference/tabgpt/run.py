"""A training run as an iterator: its steps, what it records of them, and its checkpoints.

The steps are the backend's. A disk that is full does not end a run: what cannot be
recorded waits, and what cannot be saved is saved by the next autosave that can.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from . import checkpoint as checkpoints
from .api import Model
from .checkpoint import METRICS_FILE
from .config import RunConfig, TrainConfig
from .corpus import Corpus
from .errors import CheckpointError, NonFiniteError
from .folder_lock import FolderLock, lock_folder
from .metrics import Metrics, MetricsFile


class Run:
    """A training run: an iterator of Metrics, one for each step until the last."""

    def __init__(self, model: Model, corpus: Corpus, out: Path | None) -> None:
        about = model.about
        assert about.train is not None and about.run is not None
        self.model = model
        self.corpus = corpus
        self.out = out
        self.train: TrainConfig = about.train
        self.run: RunConfig = about.run
        self.saved_step: int | None = None
        """The step of the checkpoint on the disk."""
        self.evaluating = False
        """An exception is harmless now: the next call makes up for the evaluation."""
        self.tell: Callable[[str], None] = _warn
        """Called with a sentence when a file cannot be written, and when it can be again."""
        self._troubles: set[str] = set()
        """What cannot be written, and has been told."""
        self._lock: FolderLock | None = None if out is None else lock_folder(out)
        self._metrics: MetricsFile | None = None
        self._unevaluated: Metrics | None = None
        """The last step's line, recorded without the validation loss that is due."""
        self._failed = ""
        """Why the state is not to be saved; empty while it is sound."""
        self._began = self._saved_at = time.monotonic()

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self.model.about.step

    def done(self) -> bool:
        """The last step and its evaluation are behind."""
        return self.step >= self.train.steps and self._unevaluated is None

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Metrics:
        """One optimizer step, its evaluation and autosave where they are due.

        Where an exception (a Ctrl-C) ends the evaluation, the step is recorded without it and
        may be saved; the next call, also after a resume, evaluates it and gives its Metrics.
        """
        if self._failed or self.done():
            raise StopIteration
        metrics = self._unevaluated
        recorded = metrics is not None
        if metrics is None:
            metrics = self._optimizer_step()
        if self._evaluation_due():
            try:
                metrics = self._evaluated(metrics)
            except BaseException:
                if not self._failed:
                    if not recorded:
                        self._record(metrics)
                    self._unevaluated = metrics
                raise
        self._record(metrics, again=recorded)
        self._unevaluated = None
        if self.step == self.train.steps:
            self.save()
        elif self._autosave_due():
            self._autosave()
        if self.done():
            self._lock = None
        return metrics

    def _optimizer_step(self) -> Metrics:
        """The step alone; NonFiniteError where it changed nothing."""
        began = time.perf_counter()
        self._failed = f"step {self.step + 1} was interrupted half-way"  # should an exception come
        result = self.model.session.step()
        seconds = time.perf_counter() - began
        if not result.finite:
            self._failed = f"step {self.step + 1} was not finite"
            raise NonFiniteError(self._diverged(result.step + 1, result.loss, result.grad_norm))
        self.model.about.step = result.step + 1
        self._failed = ""
        tokens = self.train.grad_accum * self.train.batch_size * self.model.config.ctx
        return Metrics(
            step=self.step,
            loss=result.loss,
            lr=result.lr,
            grad_norm=result.grad_norm,
            tokens_per_s=tokens / max(seconds, 1e-9),
            wall_s=time.monotonic() - self._began,
        )

    def _evaluation_due(self) -> bool:
        return self.step == self.train.steps or self.step % self.run.eval_interval == 0

    def _evaluated(self, metrics: Metrics) -> Metrics:
        """With the validation loss: of the whole split after the last step."""
        n_batches = 0 if self.step == self.train.steps else self.run.eval_batches
        self.evaluating = True
        try:
            val_loss = self.model.session.evaluate("val", n_batches)
        finally:
            self.evaluating = False
        if not math.isfinite(val_loss):
            self._failed = f"the validation loss of step {self.step} was not finite"
            raise NonFiniteError(
                f"step {self.step}: the validation loss is {val_loss}; training has stopped. "
                f"{self._what_is_safe()}"
            )
        return dataclasses.replace(
            metrics, val_loss=val_loss, wall_s=time.monotonic() - self._began
        )

    def _record(self, metrics: Metrics, again: bool = False) -> None:
        """A line in metrics.jsonl; again: in place of the step's line that is there."""
        if self._metrics is None:
            return
        self._failed = f"the recording of step {metrics.step} was interrupted"
        trouble = ""
        try:
            if again:
                self._metrics.amend(metrics)
            else:
                self._metrics.append(metrics)
        except CheckpointError as error:
            trouble = (
                f"{error}. Training goes on: the lines wait in memory, every step tries again, and "
                f"no checkpoint is committed without them"
            )
        self._failed = ""
        self._note(METRICS_FILE, trouble, f"{METRICS_FILE} is written again, with all its lines")

    def _autosave(self) -> None:
        """A save that may fail, for the next one may not."""
        trouble = ""
        try:
            self.save()
        except CheckpointError as error:
            again = f"the next autosave, in {self.run.autosave_seconds:g} s, tries again"
            trouble = f"{error} Training goes on: {again}"
            self._saved_at = time.monotonic()
        self._note("autosave", trouble, f"the autosave works again: step {self.step} is saved")

    def _note(self, what: str, trouble: str, well: str) -> None:
        """A person hears of a trouble once, and once of its end."""
        if (what in self._troubles) != bool(trouble):
            self._troubles ^= {what}
            self.tell(trouble or well)

    def _autosave_due(self) -> bool:
        seconds = self.run.autosave_seconds
        return seconds > 0 and time.monotonic() - self._saved_at >= seconds

    def _diverged(self, step: int, loss: float, grad_norm: float) -> str:
        return (
            f"step {step}: the loss is {loss} and the gradient norm {grad_norm}, and both must be "
            f"finite; the step changed no parameter and training has stopped. "
            f"{self._what_is_safe()} {self._way_out()}"
        )

    def _way_out(self) -> str:
        return (
            f"Train anew with a lower lr (now {self.train.lr:g}), a longer warmup_steps "
            f"({self.train.warmup_steps}) or a smaller grad_clip ({self.train.grad_clip:g})"
        )

    def _what_is_safe(self, resume: bool = False) -> str:
        if self.saved_step is None:
            return "Nothing was saved."
        how = f", and tabgpt train --resume {self.out} goes on from there" if resume else ""
        return f"The checkpoint of step {self.saved_step} in {self.out} is safe{how}."

    def save(self) -> None:
        """The checkpoint, in `out`; afterwards a kill loses nothing up to here.

        CheckpointError where it cannot be written, which may be tried again; NonFiniteError where
        the weights have overflowed, and the run is at its end.
        """
        if self.out is None:
            return
        if self._failed:
            raise CheckpointError(f"{self._failed}, so nothing is saved. {self._what_is_safe()}")
        try:
            if self._metrics is not None:
                self._metrics.sync()
            self._save_tensors(self.out)
        except CheckpointError as error:
            raise CheckpointError(
                f"step {self.step} is not saved: {error}. {self._what_is_safe(resume=True)}"
            ) from None
        except NonFiniteError as error:
            self._failed = f"the update of step {self.step} was not finite"
            raise NonFiniteError(
                f"step {self.step}: {error}, although loss and gradient norm were finite; training "
                f"has stopped. {self._what_is_safe()} {self._way_out()}"
            ) from None
        self._saved_at = time.monotonic()

    def _save_tensors(self, out: Path) -> None:
        if self.saved_step != self.step:
            session, names = self.model.session, list(self.model.weights())
            about = dataclasses.replace(
                self.model.about,
                tensors=self.model.weights(),
                moments={f"{r}:{n}": session.tensor(f"{r}:{n}") for r in "mv" for n in names},
            )
            checkpoints.save(out, about)
            self.saved_step = self.step

    def open_files(self, last: Metrics | None = None) -> None:
        """From here on steps are recorded in `out`, after its last line."""
        if self.out is not None:
            self._metrics = MetricsFile(self.out / METRICS_FILE)
        self._saved_at = time.monotonic()
        self._began = self._saved_at - (last.wall_s if last else 0.0)
        if last and last.step == self.step and last.val_loss is None and self._evaluation_due():
            self._unevaluated = last

    def close(self) -> None:
        """Closes files and gives memory and folder back, without saving."""
        if self._metrics is not None:
            self._metrics.close()
        self._lock = None
        self.model.close()


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=5)  # who iterates
