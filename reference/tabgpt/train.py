"""Starting, resuming and evaluating runs (run.py): which model, which text, which folder.

`for metrics in tabgpt.train(config, corpus): ...` trains; with `out` the run
lives in a folder, is saved every so many seconds, and goes on exactly where its
checkpoint stands with `tabgpt.resume(out)`: the losses equal those of a run that
never stopped, bit for bit on the same backend.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import batches
from . import checkpoint as checkpoints
from .api import Model
from .backends import BACKENDS, check_backend, open_session
from .checkpoint import METRICS_FILE, Checkpoint
from .config import FIELDS, ModelConfig, Recipe, TrainConfig, preset
from .corpus import Corpus, corpus_of, known_corpus, read_corpus
from .errors import CheckpointError, ConfigError, CorpusError
from .folder_lock import lock_folder
from .metrics import cut_back
from .run import Run
from .tokenizer import Ids

PathLike = str | os.PathLike[str]


def train(
    config: Recipe | str | Mapping[str, Any] | None = None,
    corpus: Corpus | PathLike | None = None,
    *,
    backend: str = "native",
    threads: int | None = None,
    out: PathLike | None = None,
    overwrite: bool = False,
    tune: bool = False,
) -> Run:
    """A new run: iterate over it to train.

    config: a Recipe (`tabgpt.preset("tiny", steps=100)`), a preset's name, or a mapping
    of hyper-parameters over the default preset. corpus: a text file; None is the default
    corpus. out: the run's folder; a run that is there already is kept unless `overwrite`.
    tune: with the backend wgpu, measure which kernels are fastest here, and train with those.
    """
    recipe = _recipe(config)
    check_backend(backend)
    _check_tune(tune, backend)
    folder = None if out is None else Path(out)
    if folder is not None and not overwrite:
        _refuse_existing(folder)
    text = corpus_of(corpus)
    tokenizer, tokens = text.tokenize(recipe.run.tokenizer)
    assert tokenizer.vocab_size is not None
    about = Checkpoint(
        recipe.model(tokenizer.vocab_size),
        {},
        tokenizer,
        recipe.train,
        recipe.run,
        corpus={"path": text.path, "sha256": text.sha256, "name": text.name},
        backend=backend,
    )
    run = _open(about, text, tokens, folder, threads, tune)
    run.model.session.init_weights()
    if folder is not None:
        if not overwrite:
            _refuse_existing(folder, about.config)  # another process may have been faster
        run.save()  # replaces a run that was there, and leaves it where the disk is full
        (folder / METRICS_FILE).unlink(missing_ok=True)
    run.open_files()
    return run


def resume(
    folder: PathLike,
    corpus: Corpus | PathLike | None = None,
    *,
    backend: str | None = None,
    threads: int | None = None,
    steps: int | None = None,
    extend_to: int | None = None,
    tune: bool = False,
) -> Run:
    """A run that goes on from its folder's checkpoint to its last step.

    backend: the one that trained it, by default. steps: another last step, for a constant
    schedule; extend_to: the same for any schedule, whose cosine then ends there. tune: as in
    `train`; a run that was tuned goes on bit for bit where it is tuned again, on the same GPU.
    """
    folder = Path(folder)
    if folder.is_file():
        raise CheckpointError(f"{folder} is a file; a run is resumed by its folder {folder.parent}")
    lock = lock_folder(folder) if folder.exists() else None  # before another's save is half seen
    about = checkpoints.load(folder, moments=True)
    if about.train is None or about.run is None:
        raise CheckpointError(f"{folder} was not saved by a run, so there is nothing to go on with")
    train = _with_last_step(about, steps, extend_to)
    longer, about.train = train != about.train, train
    if backend is None:
        backend = about.backend if about.backend in BACKENDS else "native"
    about.backend = check_backend(backend)
    _check_tune(tune, backend)
    text = _same_corpus(about, corpus, folder)
    tokens = about.tokenizer.encode(text.raw)
    run = _open(about, text, tokens, folder, threads, tune)
    for name, array in {**about.tensors, **(about.moments or {})}.items():
        run.model.session.set(name, array)
    about.tensors, about.moments = {}, None
    run.model.session.step_number = run.saved_step = about.step
    checkpoints.tidy(folder, about)
    run.open_files(cut_back(folder / METRICS_FILE, about.step))
    if longer:
        run.saved_step = None
        run.save()  # so that a kill before the next save does not forget the new last step
    del lock
    return run


def _recipe(config: Recipe | str | Mapping[str, Any] | None) -> Recipe:
    if isinstance(config, Recipe):
        return config
    if config is None or isinstance(config, str):
        return preset(config) if config else preset()
    return preset(**config)


def _refuse_existing(folder: Path, config: ModelConfig | None = None) -> None:
    """A run, and a config.json that is not the one that a run of this config writes."""
    there = [n for n in (checkpoints.MODEL_FILE, METRICS_FILE) if (folder / n).exists()]
    if there:
        raise CheckpointError(
            f"{folder} holds a run already ({', '.join(there)}): go on with it by --resume "
            f"{folder}, choose another --out, or replace it by --overwrite"
        )
    if config is not None and not checkpoints.config_file_is_of(folder, config):
        raise CheckpointError(
            f"{folder} holds a {checkpoints.CONFIG_FILE} of something else, which the run would "
            f"replace: choose another --out, or replace it by --overwrite"
        )


def _check_tune(tune: bool, backend: str) -> None:
    if tune and backend != "wgpu":
        raise ConfigError(
            f"tuning chooses a GPU's kernels, and the backend is {backend}: leave --tune out, or "
            f"train with --backend wgpu"
        )


def _open(
    about: Checkpoint,
    corpus: Corpus,
    tokens: Ids,
    out: Path | None,
    threads: int | None,
    tune: bool,
) -> Run:
    assert about.backend is not None
    batches.split(tokens, about.config.ctx)  # says what is too short before memory is asked for
    variants = ""
    if tune:
        from .sweep.tune import tune as choose

        assert about.train is not None
        variants = choose(about.config, about.train, print)
    session = open_session(
        about.backend, about.config, about.train, tokens, "train", threads, variants
    )
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot make the folder {out}: {error.strerror}") from None
    return Run(Model(about, session, about.backend, threads), corpus, out)


def _with_last_step(about: Checkpoint, steps: int | None, extend_to: int | None) -> TrainConfig:
    """The run's TrainConfig, with another number of steps where that is allowed."""
    assert about.train is not None
    wanted = extend_to if extend_to is not None else steps
    if wanted is None or wanted == about.train.steps:
        return about.train
    changed = dataclasses.replace(about.train, steps=wanted)
    if extend_to is None and about.train.schedule != "constant":
        raise ConfigError(
            f"steps is {wanted}, and this run has {about.train.steps}: its {about.train.schedule} "
            f"schedule depends on the last step, so the run would not be the same. To go on all "
            f"the same, with a cosine that now ends at step {wanted}, use --extend-to {wanted}"
        )
    if wanted < about.step:
        raise ConfigError(f"steps is {wanted}, and the run has done {about.step} already")
    return changed


def _same_corpus(about: Checkpoint, given: Corpus | PathLike | None, folder: Path) -> Corpus:
    """The text that the run began with, proved by its hash."""
    known = about.corpus or {"path": "", "sha256": "", "name": "?"}
    if given is not None:
        text = corpus_of(given)
    elif known["path"] and Path(known["path"]).exists():
        text = read_corpus(known["path"])
    else:
        file = known_corpus(known["sha256"])
        if file is None:
            where = f"is not at {known['path']} any more" if known["path"] else "has no path"
            raise CorpusError(
                f"the corpus of {folder} ({known['name']}, sha256 {known['sha256']}) {where}; "
                f"pass it with --corpus FILE"
            )
        text = read_corpus(file)
    if text.sha256 != known["sha256"]:
        raise CorpusError(
            f"{text.path or text.name} is not the text that {folder} was trained on: its sha256 "
            f"is {text.sha256}, the run's {known['sha256']} ({known['name']}); restore that text, "
            f"or pass it with --corpus FILE"
        )
    return text


def evaluate_checkpoint(
    path: PathLike,
    corpus: Corpus | PathLike | None = None,
    split: str = "val",
    n_batches: int = 0,
    backend: str = "native",
    threads: int | None = None,
) -> tuple[float, int]:
    """Mean loss of a checkpoint on a split of a text, and that split's length in tokens.

    corpus: by default the text that the checkpoint was trained on.
    """
    check_backend(backend)
    n_batches = FIELDS["eval_batches"].check(n_batches)
    about = checkpoints.load(Path(path))
    text = _same_corpus(about, None, Path(path)) if corpus is None else corpus_of(corpus)
    tokens = about.tokenizer.encode(text.raw)
    parts = dict(zip(("train", "val"), batches.split(tokens, about.config.ctx), strict=True))
    if split not in parts:
        raise ConfigError(f"split is {split!r}; it must be val or train")
    session = open_session(backend, about.config, about.train, tokens, threads=threads)
    for name, array in about.tensors.items():
        session.set(name, array)
    loss = session.evaluate(split, n_batches)
    session.close()
    return loss, len(parts[split])
