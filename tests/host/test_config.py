"""Hyper-parameters: what is refused, and that presets.json is the only place of a default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tabgpt
from tabgpt import _core, config
from tabgpt.config import FIELDS, ModelConfig, Recipe, TrainConfig, preset, preset_names
from tabgpt.errors import ConfigError

JSON = json.loads((Path(config.__file__).parent / "presets.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_says_what_the_file_says(name: str) -> None:
    recipe = preset(name)
    for field, value in JSON["presets"][name]["values"].items():
        assert recipe.values[field] == value
    model = recipe.model(65)
    assert model.d_mlp == 4 * model.d_model
    core = _core.Config({**model.to_dict(), **recipe.train.to_dict()})
    assert core.n_parameters > 0


def test_classes_hold_exactly_the_files_fields() -> None:
    for group, cls in [
        ("model", ModelConfig),
        ("train", TrainConfig),
        ("run", tabgpt.RunConfig),
        ("sample", tabgpt.SampleConfig),
    ]:
        names = [f.name for f in FIELDS.values() if f.group == group]
        ours = list(cls.__dataclass_fields__)
        assert [n for n in ours if n != "vocab_size"] == names
    for name, entry in ((e["name"], e) for e in JSON["fields"]):
        assert Recipe().values[name] == entry["default"]


def test_the_core_has_the_same_fields() -> None:
    ours = {f.name for f in FIELDS.values() if f.group in ("model", "train")}
    assert set(_core.fields()) == ours | {"vocab_size"}


def _numbers() -> list[Any]:
    return [f for f in FIELDS.values() if f.type != "choice"]


@pytest.mark.parametrize("field", _numbers(), ids=lambda f: f.name)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, -0.5, 1e300, True, "7", None])
def test_numbers_out_of_range_are_refused(field: config.Field, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe(**{field.name: value})
    assert field.name in str(caught.value) and field.range() in str(caught.value)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize("field", [f for f in _numbers() if f.type == "int"], ids=lambda f: f.name)
def test_fractions_are_refused_for_whole_numbers(field: config.Field) -> None:
    with pytest.raises(ConfigError, match=f"{field.name} is 1.5; it must be a whole number"):
        Recipe(**{field.name: 1.5})


@pytest.mark.parametrize("name", ["batch_size", "steps", "n_layer", "lr", "ctx", "eps", "top_p"])
def test_zero_is_refused_where_nothing_would_happen(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0; it must be"):
        Recipe(**{name: 0})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation": "relu"}, "activation is 'relu'; it must be one of gelu_tanh, gelu_erf"),
        ({"schedule": 3}, "schedule is 3; it must be one of"),
        ({"learning_rate": 1}, "unknown hyper-parameter 'learning_rate'"),
        ({"bath_size": 1}, "did you mean 'batch_size'"),
        ({"n_head": 5, "d_model": 12}, "d_model is 12, which n_head 5 does not divide"),
        ({"n_head": 1, "d_model": 129}, "at most 128 are possible: raise n_head to 3"),
    ],
)
def test_wrong_names_choices_and_combinations(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe(**values)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_numbers_beyond_float64_are_refused(value: int) -> None:
    with pytest.raises(ConfigError, match=r"steps is beyond 1\.8e308.*from 1 to 1000000000"):
        preset("tiny", steps=value)


def test_unknown_preset_and_keys() -> None:
    with pytest.raises(ConfigError, match="unknown preset 'smal'; did you mean 'small'"):
        preset("smal")
    with pytest.raises(ConfigError, match="unknown key 'lrr' in TrainConfig; did you mean 'lr'"):
        TrainConfig.from_dict({**TrainConfig().to_dict(), "lrr": 1})
    with pytest.raises(ConfigError, match="TrainConfig lacks lr, seed"):
        TrainConfig.from_dict(
            {k: v for k, v in TrainConfig().to_dict().items() if k not in ("lr", "seed")}
        )
    with pytest.raises(ConfigError, match="vocab_size is 0; it must be from 1"):
        ModelConfig(0)


def test_json_keeps_every_value() -> None:
    train = TrainConfig(lr=0.1 + 0.2, eps=3e-17, seed=2**32 - 1)
    assert TrainConfig.from_dict(json.loads(json.dumps(train.to_dict()))) == train


def test_whole_numbers_may_come_as_floats() -> None:
    """JavaScript has one kind of number."""
    steps = preset(steps=100.0).train.steps
    assert steps == 100 and isinstance(steps, int)
