"""One list of hyper-parameters: every front end has presets.json's fields, defaults and ranges."""

from __future__ import annotations

import json
import math
import re
import subprocess

import pytest
import tabgpt.config
from remote import NATIVE, NODE, ROOT, CoreError, Remote
from tabgpt.cli import app
from tabgpt.config import ModelConfig, RunConfig, SampleConfig, TrainConfig
from typer.main import get_command

PRESETS = json.loads((ROOT / "reference/tabgpt/presets.json").read_text(encoding="utf-8"))
FIELDS = {field["name"]: field for field in PRESETS["fields"]}
GROUPS = {"model": ModelConfig, "train": TrainConfig, "run": RunConfig, "sample": SampleConfig}
CORE = [name for name, field in FIELDS.items() if field["group"] in ("model", "train")]


def test_core_has_the_fields(core: Remote) -> None:
    assert sorted(core("fields")) == sorted([*CORE, "vocab_size"])


@pytest.mark.parametrize("group", GROUPS)
def test_python_has_the_defaults(group: str) -> None:
    given = {"vocab_size": 3} if group == "model" else {}
    made = GROUPS[group](**given).to_dict()
    made.pop("vocab_size", None)
    expected = {name: f["default"] for name, f in FIELDS.items() if f["group"] == group}
    if group == "model":
        expected["d_mlp"] = 4 * expected["d_model"]  # 0 is resolved
    assert made == expected


def test_every_preset_is_valid_and_names_known_fields() -> None:
    for name, preset in PRESETS["presets"].items():
        assert preset["values"].keys() <= FIELDS.keys()
        recipe = tabgpt.config.preset(name)
        expected = {**{n: f["default"] for n, f in FIELDS.items()}, **preset["values"]}
        assert recipe.values == expected


@pytest.mark.parametrize(
    ("command", "groups"), [("train", ("model", "train", "run")), ("sample", ("sample",))]
)
def test_cli_has_the_options_and_says_the_defaults(command: str, groups: tuple[str, ...]) -> None:
    made = {option.name: option for option in get_command(app).commands[command].params}
    in_presets = {name for preset in PRESETS["presets"].values() for name in preset["values"]}
    for name, field in FIELDS.items():
        if field["group"] not in groups:
            continue
        option = made[name]
        assert option.default is None, f"{name}: typed twice"
        said = "the preset's" if name in in_presets else str(field["default"])
        assert re.search(rf"default:? {re.escape(said)}\.", option.help), option.help


def test_page_reads_the_same_file() -> None:
    """Node runs the page's own module."""
    script = """
      const { FIELDS, PRESETS, presetValues } = await import(process.argv[1]);
      const values = Object.fromEntries(Object.keys(PRESETS).map((n) => [n, presetValues(n)]));
      console.log(JSON.stringify({ fields: FIELDS, values }));
    """
    module = (ROOT / "browser/src/presets.ts").as_uri()
    command = [str(NODE), "--input-type=module", "-e", script, module]
    page = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert page["fields"] == PRESETS["fields"]
    for name, values in page["values"].items():
        assert values == tabgpt.config.preset(name).values


def limits(field: dict) -> list[tuple[float, bool]]:
    """(value, whether it is allowed) at and just beyond each limit."""
    whole = field["type"] == "int"
    step = (lambda x, up: x + (1 if up else -1)) if whole else (
        lambda x, up: math.nextafter(x, math.inf if up else -math.inf)
    )  # fmt: skip
    tried = [(math.inf, False), (-math.inf, False)]
    if "min" in field:
        tried += [(field["min"], True), (step(field["min"], False), False)]
    if "max" in field:
        tried += [(field["max"], True), (step(field["max"], True), False)]
    if "above" in field:
        tried += [(field["above"], False), (step(field["above"], True), True)]
    if "below" in field:
        tried += [(field["below"], False), (step(field["below"], False), True)]
    return tried


NUMBERS = [name for name in CORE if FIELDS[name]["type"] != "choice"]


@pytest.mark.parametrize("name", NUMBERS)
def test_core_has_the_ranges(remotes, name: str) -> None:
    """Exactly at each limit, one field at a time; rules between fields are config_check's."""
    core = remotes("wasm-scalar")
    handle = int(core("raw", name="tabgpt_config_new", values=[])["result"])
    for value, allowed in limits(FIELDS[name]):
        sent = value if math.isfinite(value) else {"number": str(value).replace("inf", "Infinity")}
        answer = core("raw", name="tabgpt_config_set", values=[handle, name, sent])
        assert (answer["result"] == "0") == allowed, (name, value, answer)
    core("raw", name="tabgpt_config_free", values=[handle])


@pytest.mark.parametrize("name", [name for name in CORE if FIELDS[name]["type"] == "choice"])
def test_core_has_the_choices(remotes, name: str) -> None:
    core = remotes(NATIVE[0])
    base = {"vocab_size": 3, **{n: FIELDS[n]["default"] for n in CORE}}
    for choice in FIELDS[name]["choices"]:
        core("memory", config={**base, name: choice}, mode="infer", threads=1, tokens=0)
    with pytest.raises(CoreError, match="mish"):
        core("memory", config={**base, name: "mish"}, mode="infer", threads=1, tokens=0)


def test_head_dim_limit(remotes) -> None:
    most = PRESETS["max_head_dim"]
    base = {"vocab_size": 3, **{n: FIELDS[n]["default"] for n in CORE}, "n_head": 2}
    plan = {"mode": "infer", "threads": 1, "tokens": 0}
    core = remotes(NATIVE[0])
    core("memory", config={**base, "d_model": 2 * most}, **plan)
    with pytest.raises(CoreError, match=str(most)):
        core("memory", config={**base, "d_model": 2 * most + 2}, **plan)
