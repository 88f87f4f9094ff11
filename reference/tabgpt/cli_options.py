"""Command-line options made from presets.json: no default, range or help is typed twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from .config import FIELDS, PRESET_FIELDS, Field, fields_of

_SHORT = {"batch_size": "--batch", "n_layer": "--layers", "n_head": "--heads"}
_RENAMED = {"sample_seed": "--seed"}
_PANELS = {"model": "Model", "train": "Training", "run": "Run", "sample": "Sampling"}

Command = TypeVar("Command", bound=Callable[..., Any])


def _option(field: Field, of_preset: bool) -> inspect.Parameter:
    names = [_RENAMED.get(field.name, "--" + field.name.replace("_", "-"))]
    if field.name in _SHORT:
        names.append(_SHORT[field.name])
    default = "default: the preset's" if of_preset else f"default {field.default}"
    text = f"{field.help} {field.range()[0].upper()}{field.range()[1:]}; {default}."
    option = typer.Option(
        *names,
        help=text,
        parser=field.parse,
        show_default=False,
        metavar="|".join(field.choices) or ("N" if field.type == "int" else "X"),
        rich_help_panel=_PANELS[field.group],
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[Any, option],
    )


def with_fields(*groups: str) -> Callable[[Command], Command]:
    """Adds an option for every field of the groups; the command takes them as `**given`.

    Options that were not given are None.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        made = [
            _option(field, field.name in PRESET_FIELDS)
            for group in groups
            for field in fields_of(group)
        ]
        command.__signature__ = signature.replace(parameters=own + made)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in own + made}
        return command

    return decorate


def given_fields(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in values.items() if name in FIELDS and value is not None}
