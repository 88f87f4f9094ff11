"""Hyper-parameters: read once from presets.json, checked once, here.

`presets.json` holds every field (default, range, label, help) and every preset
(overrides of fields); no other file types a default. `ModelConfig`,
`TrainConfig`, `RunConfig` and `SampleConfig` are checked when they are made, so
a config that exists is valid. A `Recipe` is what a person chooses before the
corpus is known: all fields but `vocab_size`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import ConfigError

_PRESETS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "presets.json").read_text(encoding="utf-8")
)

MAX_HEAD_DIM: int = _PRESETS["max_head_dim"]
"""Channels of one attention head, at most: a kernel keeps one head's row in registers."""
MAX_VOCAB_SIZE = 1 << 24
"""float32 logits count ids exactly up to here; Unicode has 1,114,112 code points."""
VALIDATION_DIVISOR: int = round(1 / _PRESETS["validation_fraction"])
"""The last N div 10 tokens of a corpus are the validation split."""
DEFAULT_PRESET: str = _PRESETS["default_preset"]


@dataclass(frozen=True)
class Field:
    """One hyper-parameter as presets.json describes it."""

    name: str
    group: str  # model, train, run or sample
    type: str  # int, float or choice
    default: Any
    label: str
    help: str
    min: float | None = None  # inclusive
    max: float | None = None  # inclusive
    above: float | None = None  # exclusive
    below: float | None = None  # exclusive
    choices: tuple[str, ...] = ()

    def range(self) -> str:
        """The limits in words, e.g. "from 1 to 65536", "above 0 and at most 1"."""
        if self.type == "choice":
            return "one of " + ", ".join(self.choices)
        if self.min is not None and self.max is not None:
            return f"from {self.min} to {self.max}"
        low = f"above {self.above}" if self.above is not None else f"at least {self.min}"
        high = f"below {self.below}" if self.below is not None else f"at most {self.max}"
        return f"{low} and {high}"

    def check(self, value: Any) -> Any:
        """`value` as this field's type; ConfigError when it is not one, or out of range."""
        if self.type == "choice":
            if not isinstance(value, str) or value not in self.choices:
                raise ConfigError(f"{self.name} is {value!r}; it must be {self.range()}")
            return value
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ConfigError(f"{self.name} is {value!r}, not a number; it must be {self.range()}")
        try:
            number = float(value)
        except OverflowError:
            raise ConfigError(
                f"{self.name} is beyond 1.8e308, the largest float64; it must be {self.range()}"
            ) from None
        if not math.isfinite(number):
            raise ConfigError(f"{self.name} is {number}; it must be {self.range()}")
        if self.type == "int" and number != math.floor(number):
            raise ConfigError(f"{self.name} is {value}; it must be a whole number, {self.range()}")
        below_low = (self.min is not None and number < self.min) or (
            self.above is not None and number <= self.above
        )
        above_high = (self.max is not None and number > self.max) or (
            self.below is not None and number >= self.below
        )
        if below_low or above_high:
            raise ConfigError(f"{self.name} is {value}; it must be {self.range()}")
        return int(number) if self.type == "int" else number

    def parse(self, text: str) -> Any:
        """The value that a text means, e.g. on a command line; checked."""
        if self.type == "choice":
            return self.check(text)
        try:
            return self.check(int(text) if self.type == "int" else float(text))
        except ValueError:
            kind = "a whole number" if self.type == "int" else "a number"
            raise ConfigError(
                f"{self.name} is {text!r}; it must be {kind}, {self.range()}"
            ) from None


FIELDS: dict[str, Field] = {
    entry["name"]: Field(**{**entry, "choices": tuple(entry.get("choices", ()))})
    for entry in _PRESETS["fields"]
}
"""Every field by name, in the file's order."""
PRESET_FIELDS: frozenset[str] = frozenset().union(
    *(entry["values"] for entry in _PRESETS["presets"].values())
)
"""The fields that presets set; the others keep their own default."""


def fields_of(group: str) -> list[Field]:
    """The fields of a group (model, train, run, sample), in the file's order."""
    return [field for field in FIELDS.values() if field.group == group]


def _default(name: str) -> Any:
    return FIELDS[name].default


def suggestion(name: str, known: Iterable[str]) -> str:
    """ "; did you mean x?" or the list of what there is: the way out of a wrong name."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"


Self = TypeVar("Self", bound="_Checked")


class _Checked:
    """A dataclass whose fields are checked against FIELDS when it is made."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            if item.name in FIELDS:
                value = FIELDS[item.name].check(getattr(self, item.name))
                object.__setattr__(self, item.name, value)

    @classmethod
    def from_dict(cls: type[Self], values: Mapping[str, Any]) -> Self:
        """From JSON's values: every field must be there and nothing else may be."""
        known = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in values:
            if name not in known:
                raise ConfigError(
                    f"unknown key {name!r} in {cls.__name__}{suggestion(name, known)}"
                )
        missing = [name for name in known if name not in values]
        if missing:
            raise ConfigError(f"{cls.__name__} lacks {', '.join(missing)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return dict(dataclasses.asdict(self))  # type: ignore[call-overload]


@dataclass(frozen=True)
class ModelConfig(_Checked):
    """A GPT-2 shaped model; d_mlp = 0 becomes 4 * d_model when it is made."""

    vocab_size: int
    ctx: int = _default("ctx")
    n_layer: int = _default("n_layer")
    n_head: int = _default("n_head")
    d_model: int = _default("d_model")
    d_mlp: int = _default("d_mlp")
    dropout: float = _default("dropout")
    activation: str = _default("activation")

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = Field("vocab_size", "model", "int", 0, "Vocabulary", "", min=1, max=MAX_VOCAB_SIZE)
        object.__setattr__(self, "vocab_size", limit.check(self.vocab_size))
        if self.d_mlp == 0:
            object.__setattr__(self, "d_mlp", 4 * self.d_model)
        check_heads(self.n_head, self.d_model)

    @property
    def head_dim(self) -> int:
        """D = C / H, channels of one attention head."""
        return self.d_model // self.n_head


def check_heads(n_head: int, d_model: int) -> None:
    """n_head divides d_model, and a head has at most MAX_HEAD_DIM channels."""
    if d_model % n_head:
        raise ConfigError(
            f"d_model is {d_model}, which n_head {n_head} does not divide; "
            f"choose d_model as a multiple of n_head"
        )
    if d_model // n_head > MAX_HEAD_DIM:
        fewest = -(-d_model // MAX_HEAD_DIM)
        fitting = next(heads for heads in range(fewest, d_model + 1) if d_model % heads == 0)
        raise ConfigError(
            f"d_model {d_model} / n_head {n_head} is {d_model // n_head} channels a head; "
            f"at most {MAX_HEAD_DIM} are possible: raise n_head to {fitting}, which divides d_model"
        )


@dataclass(frozen=True)
class TrainConfig(_Checked):
    """What changes the weights that training arrives at."""

    batch_size: int = _default("batch_size")
    grad_accum: int = _default("grad_accum")
    steps: int = _default("steps")
    lr: float = _default("lr")
    schedule: str = _default("schedule")
    min_lr_ratio: float = _default("min_lr_ratio")
    warmup_steps: int = _default("warmup_steps")
    beta1: float = _default("beta1")
    beta2: float = _default("beta2")
    eps: float = _default("eps")
    weight_decay: float = _default("weight_decay")
    grad_clip: float = _default("grad_clip")
    seed: int = _default("seed")


@dataclass(frozen=True)
class RunConfig(_Checked):
    """What a run does beside its steps: none of it changes a weight, but the tokenizer."""

    tokenizer: str = _default("tokenizer")
    eval_interval: int = _default("eval_interval")
    eval_batches: int = _default("eval_batches")
    sample_interval: int = _default("sample_interval")
    autosave_seconds: float = _default("autosave_seconds")


@dataclass(frozen=True)
class SampleConfig(_Checked):
    """How the next token is chosen."""

    max_new_tokens: int = _default("max_new_tokens")
    temperature: float = _default("temperature")
    top_k: int = _default("top_k")
    top_p: float = _default("top_p")
    sample_seed: int = _default("sample_seed")


class Recipe:
    """Every field but vocab_size, which the corpus decides: a preset with overrides.

    >>> preset("tiny", steps=100).train.steps
    100
    """

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in FIELDS:
                raise ConfigError(f"unknown hyper-parameter {name!r}{suggestion(name, FIELDS)}")
        self.values: dict[str, Any] = {
            name: field.check(values.get(name, field.default)) for name, field in FIELDS.items()
        }
        check_heads(self.values["n_head"], self.values["d_model"])

    def _group(self, group: str) -> dict[str, Any]:
        return {field.name: self.values[field.name] for field in fields_of(group)}

    def model(self, vocab_size: int) -> ModelConfig:
        return ModelConfig(vocab_size=vocab_size, **self._group("model"))

    @property
    def train(self) -> TrainConfig:
        return TrainConfig(**self._group("train"))

    @property
    def run(self) -> RunConfig:
        return RunConfig(**self._group("run"))

    @property
    def sample(self) -> SampleConfig:
        return SampleConfig(**self._group("sample"))

    def replace(self, **overrides: Any) -> Recipe:
        """A copy with some fields changed."""
        return Recipe(**{**self.values, **overrides})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.values == other.values

    def __repr__(self) -> str:
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


def preset_names() -> list[str]:
    """Presets from the smallest to the largest, then the reference lines."""
    return list(_PRESETS["presets"])


def preset_title(name: str) -> str:
    return str(_PRESETS["presets"][name]["title"])


def preset(name: str = DEFAULT_PRESET, **overrides: Any) -> Recipe:
    """A preset by name, with overrides: `preset("tiny", steps=100)`."""
    if name not in _PRESETS["presets"]:
        raise ConfigError(f"unknown preset {name!r}{suggestion(name, preset_names())}")
    return Recipe(**{**_PRESETS["presets"][name]["values"], **overrides})
