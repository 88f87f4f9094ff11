"""Checkpoints: a folder that any backend, the browser and transformers open.

    model.safetensors             the weights, under Hugging Face's names, and metadata
    config.json                   transformers' GPT2Config
    optimizer-000123.safetensors  AdamW's moments `m:<name>`, `v:<name>` after 123 steps
    metrics.jsonl                 a line a step (train.py)

Metadata of model.safetensors, all strings (JSON where it says so):

    format         "pt"
    producer       "tabgpt 0.1.0"
    tabgpt_schema  "1"
    backend        what trained it last: "native", "numpy", "wasm", "webgpu"
    config         JSON, ModelConfig: vocab_size and presets.json's group "model", d_mlp resolved
    tokenizer      JSON, see tokenizer.py
    train          JSON, presets.json's group "train"    (absent: saved without a run)
    run            JSON, presets.json's group "run"      (likewise)
    step           optimizer steps done; 0 where it is absent
    tokens_seen    step * grad_accum * batch_size * ctx; for other readers
    seed           of the run, as in train; for other readers
    corpus         JSON {"path", "sha256", "name"}; path is "" where there is none (the browser)
    optimizer      the moments' file name; absent where there are none

Keys that are not in this list are ignored. Weights are float32, or float64 from
the oracle; `lm_head.weight` is not stored, since it is `wte`. A save writes the
moments, then config.json, then model.safetensors, each to a new file that is
flushed and renamed; the last rename commits the save, and only then older
moments are deleted. A kill at any moment leaves the old or the new checkpoint.
Values that are not finite are not saved: what was there before stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from . import hf, layout
from .config import ModelConfig, RunConfig, TrainConfig
from .errors import CheckpointError, ConfigError, NonFiniteError, TokenizerError
from .safetensors_file import (
    Array,
    Header,
    commit,
    first_not_finite,
    read_floats,
    read_header,
    remove,
    write_atomically,
)
from .tokenizer import NoTokenizer, Tokenizer, half_characters, tokenizer_from_json

SCHEMA = "1"
MAX_STEP = 2**32 - 1
"""Philox's counter holds the step in one word."""
MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
METRICS_FILE = "metrics.jsonl"
_INDEX_FILE = "model.safetensors.index.json"
_OPTIMIZER_NAME = re.compile(r"optimizer-\d+\.safetensors", re.ASCII)
_PARTIAL_NAME = re.compile(r"\.(.+)\.partial")


@dataclass
class Checkpoint:
    """A model, and where its training stands."""

    config: ModelConfig
    tensors: dict[str, Array]
    tokenizer: Tokenizer = field(default_factory=NoTokenizer)
    train: TrainConfig | None = None
    run: RunConfig | None = None
    step: int = 0
    corpus: dict[str, str] | None = None
    backend: str | None = None
    moments: dict[str, Array] | None = None
    """`m:<name>` and `v:<name>`; None where there are none, or they were not asked for."""
    moments_file: str | None = None
    """The name of the file that a checkpoint on the disk has them in."""

    @property
    def tokens_seen(self) -> int:
        if self.train is None:
            return 0
        return self.step * self.train.grad_accum * self.train.batch_size * self.config.ctx


def producer() -> str:
    try:
        return f"tabgpt {version('tabgpt')}"
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "tabgpt"


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes the folder in the order that the file's head describes.

    CheckpointError where it cannot be written, NonFiniteError where it should not be.
    """
    _refuse_what_is_not_finite(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {folder}: {error.strerror}") from None
    optimizer, new = None, False
    if checkpoint.moments is not None:
        optimizer = f"optimizer-{checkpoint.step:06d}.safetensors"
        new = not (folder / optimizer).exists()
        write_atomically(
            folder / optimizer,
            checkpoint.moments,
            {"format": "pt", "tabgpt_schema": SCHEMA, "step": str(checkpoint.step)},
        )
    try:
        _write_text(folder / CONFIG_FILE, _config_text(checkpoint.config))
        metadata = _metadata(checkpoint, optimizer)
        write_atomically(folder / MODEL_FILE, checkpoint.tensors, metadata)
    except CheckpointError:
        if optimizer is not None and new:  # of no use without its weights, and the disk is full
            remove(folder / optimizer)
        raise
    _remove_stale(folder, optimizer)


def _refuse_what_is_not_finite(checkpoint: Checkpoint) -> None:
    """A step of finite loss and gradients may still end in weights or moments that overflowed."""
    for name, array in {**checkpoint.tensors, **(checkpoint.moments or {})}.items():
        where = first_not_finite(array)
        if where is not None:
            raise NonFiniteError(f"tensor {name} holds {array[where]} at {list(where)}")


def _remove_stale(folder: Path, optimizer: str | None) -> None:
    """Moments of other saves than the committed one, and files that a kill left half written.

    A failure does not matter: the checkpoint is committed, and the next save tries again.
    """
    kept = {MODEL_FILE, CONFIG_FILE, METRICS_FILE, optimizer}
    with suppress(OSError):
        for path in folder.iterdir():
            partial = _PARTIAL_NAME.fullmatch(path.name)
            name = partial[1] if partial else path.name
            ours = _OPTIMIZER_NAME.fullmatch(name) or (partial and name in kept)
            if ours and path.name not in kept:
                remove(path)


def tidy(folder: Path, checkpoint: Checkpoint) -> None:
    """What the end of a save does: a kill between its commit and its end leaves that to a resume.

    So does a kill of an overwriting run between config.json and its first model.
    """
    if not config_file_is_of(folder, checkpoint.config):
        _write_text(folder / CONFIG_FILE, _config_text(checkpoint.config))
    _remove_stale(folder, checkpoint.moments_file)


def _config_text(config: ModelConfig) -> str:
    return json.dumps(hf.config_to_hf(config), indent=2) + "\n"


def config_file_is_of(folder: Path, config: ModelConfig) -> bool:
    """Whether the folder's config.json is the one that a save of this config writes, or none."""
    try:
        return (folder / CONFIG_FILE).read_bytes() == _config_text(config).encode()
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _metadata(checkpoint: Checkpoint, optimizer: str | None) -> dict[str, str]:
    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    metadata = {
        "format": "pt",
        "producer": producer(),
        "tabgpt_schema": SCHEMA,
        "config": text(checkpoint.config.to_dict()),
        "tokenizer": checkpoint.tokenizer.to_json(),
        "step": str(checkpoint.step),
        "tokens_seen": str(checkpoint.tokens_seen),
    }
    if checkpoint.train is not None:
        metadata["train"] = text(checkpoint.train.to_dict())
        metadata["seed"] = str(checkpoint.train.seed)
    if checkpoint.run is not None:
        metadata["run"] = text(checkpoint.run.to_dict())
    if checkpoint.corpus is not None:
        metadata["corpus"] = text(checkpoint.corpus)
    if checkpoint.backend is not None:
        metadata["backend"] = checkpoint.backend
    if optimizer is not None:
        metadata["optimizer"] = optimizer
    return metadata


def _write_text(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        commit(partial, path)
    except OSError as error:
        remove(partial)
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from None


def load(path: Path, *, moments: bool = False) -> Checkpoint:
    """A checkpoint of ours or of transformers: its folder, or its file.

    Refuses, by CheckpointError, everything that is not sound to the last value.
    `moments`: also read AdamW's state, which must then be there.
    """
    headers = [read_header(file) for file in _files(path)]
    with _named(headers[0].path):
        checkpoint = _described(headers[0])
        checkpoint.tensors = _weights(headers, checkpoint.config)
        if moments:
            checkpoint.moments = _moments(headers[0].path.parent, checkpoint)
        return checkpoint


def describe(path: Path) -> Checkpoint:
    """What a checkpoint says of itself: no tensors are read, nor looked for."""
    header = read_header(_files(path)[0])
    with _named(header.path):
        return _described(header)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Refusals say in which file."""
    try:
        yield
    except (CheckpointError, ConfigError, TokenizerError) as error:
        prefix = "" if str(error).startswith(str(path.parent)) else f"{path}: "
        raise CheckpointError(f"{prefix}{error}") from None


def _files(path: Path) -> list[Path]:
    """The weight files of a checkpoint: one, or the shards of a large model."""
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError(f"there is no checkpoint {path}; check the path")
        if path.suffix in (".bin", ".pt", ".pth", ".ckpt"):
            raise CheckpointError(
                f"{path} is a pickle, which can run code when it is read; only safetensors are: "
                f"save it again with save_pretrained, which writes {MODEL_FILE}"
            )
        return [path]
    if (path / MODEL_FILE).exists():
        return [path / MODEL_FILE]
    if (path / _INDEX_FILE).exists():
        files = _json_file(path / _INDEX_FILE).get("weight_map")
        names = list(files.values()) if isinstance(files, dict) else []
        if not names or any(not isinstance(n, str) or Path(n).name != n for n in names):
            raise CheckpointError(
                f"{path / _INDEX_FILE} names no files of this folder: its weight_map is "
                f"{str(files)[:200]}"
            )
        return [path / name for name in sorted(set(names))]
    there = ", ".join(sorted(item.name for item in path.iterdir())[:8]) or "nothing"
    raise CheckpointError(f"{path} holds no {MODEL_FILE}; there is: {there}")


def _json_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from None
    return _json_object(text, str(path))


def _json_object(text: str, what: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not in the language")

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{what} is no JSON ({error}): {text[:80]!r}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{what} is no JSON object: {text[:80]!r}")
    return value


def _transformers_config(folder: Path) -> ModelConfig:
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(
            f"the file was not saved by tabgpt, and there is no {path} beside it that describes "
            f"the model"
        )
    return hf.config_from_hf(_json_file(path))


def _described(header: Header) -> Checkpoint:
    """What the metadata says, or where there is none of ours config.json."""
    metadata = header.metadata
    if "tabgpt_schema" not in metadata:
        return Checkpoint(_transformers_config(header.path.parent), {})
    if metadata["tabgpt_schema"] != SCHEMA:
        raise CheckpointError(
            f"it has schema {metadata['tabgpt_schema']!r}, and this tabgpt reads "
            f"{SCHEMA!r}: use the version that wrote it ({metadata.get('producer')})"
        )

    def values(key: str) -> dict[str, Any]:
        if key not in metadata:
            raise CheckpointError(f"its metadata lacks {key!r}")
        return _json_object(metadata[key], f"its metadata's {key!r}")

    config = ModelConfig.from_dict(values("config"))
    values("tokenizer")
    tokenizer = tokenizer_from_json(metadata["tokenizer"])
    if tokenizer.vocab_size not in (None, config.vocab_size):
        raise CheckpointError(
            f"vocabulary mismatch: the model has vocab_size {config.vocab_size} and its "
            f"{tokenizer.kind} tokenizer {tokenizer.vocab_size}"
        )
    train = TrainConfig.from_dict(values("train")) if "train" in metadata else None
    optimizer = metadata.get("optimizer")
    if optimizer is not None and not _OPTIMIZER_NAME.fullmatch(optimizer):
        raise CheckpointError(f"its optimizer file has the odd name {optimizer!r}")
    return Checkpoint(
        config,
        {},
        tokenizer,
        train,
        RunConfig.from_dict(values("run")) if "run" in metadata else None,
        _step(metadata, train),
        _corpus(values("corpus")) if "corpus" in metadata else None,
        metadata.get("backend"),
        moments_file=optimizer,
    )


def _step(metadata: Mapping[str, str], train: TrainConfig | None) -> int:
    text = metadata.get("step", "0")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise CheckpointError(f"its metadata's 'step' is {text!r}, not a whole number")
    last = MAX_STEP if train is None else train.steps
    if int(text) > last:
        raise CheckpointError(f"its metadata's 'step' is {text}, past the last step {last}")
    return int(text)


def _corpus(values: dict[str, Any]) -> dict[str, str]:
    corpus = {key: values.get(key, "") for key in ("path", "sha256", "name")}
    for key, value in corpus.items():
        if not isinstance(value, str) or half_characters(value):
            raise CheckpointError(f"its metadata's 'corpus' has the {key} {value!r}, not a text")
    return corpus


def _weights(headers: list[Header], config: ModelConfig) -> dict[str, Array]:
    """Every tensor of the model by our name; shapes are compared before data is read."""
    shapes = {tensor.name: tensor.shape for tensor in layout.tensors(config)}
    home = {name: header for header in headers for name in header.entries}
    names = hf.stored_names(home, list(shapes))
    for ours, stored in names.items():
        found = home[stored].entries[stored].shape
        if found != shapes[ours]:
            raise CheckpointError(
                f"tensor {stored} has the shape {list(found)}; this config needs "
                f"{list(shapes[ours])}"
            )
    tensors: dict[str, Array] = {}
    for header in headers:
        wanted = {stored: ours for ours, stored in names.items() if home[stored] is header}
        read = read_floats(header, list(wanted))
        tensors.update((wanted[stored], array) for stored, array in read.items())
    _check_tied(home.get(hf.LM_HEAD), tensors["transformer.wte.weight"])
    return {name: tensors[name] for name in shapes}


def _check_tied(header: Header | None, wte: Array) -> None:
    if header is None:
        return
    head = read_floats(header, [hf.LM_HEAD])[hf.LM_HEAD]
    if not np.array_equal(head, wte):
        raise CheckpointError(
            f"{hf.LM_HEAD} (shape {list(head.shape)}) differs from transformer.wte.weight (shape "
            f"{list(wte.shape)}); only models with a tied head are computed"
        )


def _moments(folder: Path, model: Checkpoint) -> dict[str, Array]:
    """AdamW's m and v; as many steps old as the weights."""
    if model.moments_file is None:
        raise CheckpointError("it holds no optimizer state, so training cannot go on from it")
    header = read_header(folder / model.moments_file)
    if header.metadata.get("step") != str(model.step):
        raise CheckpointError(
            f"{header.path} is of step {header.metadata.get('step')}, the weights of {model.step}"
        )
    shapes = {
        f"{role}:{tensor.name}": tensor.shape
        for role in ("m", "v")
        for tensor in layout.tensors(model.config)
    }
    for wanted, shape in shapes.items():
        if wanted not in header.entries:
            raise CheckpointError(f"{header.path} lacks the tensor {wanted}")
        found = header.entries[wanted].shape
        if found != shape:
            raise CheckpointError(
                f"{header.path}: tensor {wanted} has the shape {list(found)}; this config needs "
                f"{list(shape)}"
            )
    return read_floats(header, list(shapes))
