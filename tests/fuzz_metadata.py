#!/usr/bin/env python3
"""What damaged checkpoints say of themselves, for Python, for the page and for a third judge here.

    python tests/fuzz_metadata.py --count 100000 --seed 1

fuzz_descriptions.py makes the inputs: metadata of config, tokenizer, train, run, corpus, step and
optimizer, or a config.json of transformers. Either reader may refuse one by its own error, or must
find exactly the judge's values; what the judge finds sound both must accept, what is out of range
neither, and the core must take every config that is accepted. --only N shows one input again.
"""

from __future__ import annotations

import json
import math
import re
import struct
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz_run
from fuzz_checkpoints import Page
from fuzz_descriptions import Description, make, shown
from tabgpt import checkpoint as checkpoints
from tabgpt.backends.native import core_config
from tabgpt.checkpoint import Checkpoint
from tabgpt.errors import BackendError, CheckpointError

ROOT = Path(__file__).resolve().parent.parent
PRESETS = json.loads((ROOT / "reference/tabgpt/presets.json").read_text(encoding="utf-8"))
Values = dict[str, Any]


class Bad(Exception):
    """The judge's refusal."""


class Loose(Exception):
    """Of one meaning, and yet free to be refused: JSON beyond what a reader may hold."""


# -- the judge -------------------------------------------------------------------------------------


def parse(text: str) -> Values:
    def number(digits: str) -> Any:
        if len(digits) > 4000:  # Python's limit is 4300
            raise Loose
        value = float(digits)
        exact = value.is_integer() and abs(value) < 2**53
        return int(digits) if exact and digits.lstrip("-").isdigit() else value

    def stop(constant: str) -> None:
        raise Bad(constant)

    try:
        found = json.loads(text, parse_int=number, parse_constant=stop)
    except RecursionError:
        raise Loose from None
    except ValueError as error:
        raise Bad(str(error)) from None
    if not isinstance(found, dict):
        raise Bad("no object")
    return found


def in_range(field: Values, value: Any) -> bool:
    if field["type"] == "choice":
        return isinstance(value, str) and value in field["choices"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if field["type"] == "int" and value != math.floor(value):
        return False
    return (
        value >= field.get("min", -math.inf)
        and value <= field.get("max", math.inf)
        and value > field.get("above", -math.inf)
        and value < field.get("below", math.inf)
    )


def fields(name: str) -> list[Values]:
    return [field for field in PRESETS["fields"] if field["group"] == name]


def checked(known: list[Values], values: Values) -> Values:
    if values.keys() != {field["name"] for field in known}:
        raise Bad(f"keys {sorted(values)}")
    for field in known:
        if not in_range(field, values[field["name"]]):
            raise Bad(f"{field['name']} {values[field['name']]!r}")
    return values


def model(values: Values) -> Values:
    vocab = {"name": "vocab_size", "type": "int", "min": 1, "max": 2**24}
    values = checked([vocab, *fields("model")], values)
    width, heads = values["d_model"], values["n_head"]
    if width % heads or width // heads > PRESETS["max_head_dim"]:
        raise Bad("heads")
    return values | {"d_mlp": values["d_mlp"] or 4 * width}


def has_halves(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def tokenizer(spec: Values, vocab_size: int) -> Values:
    kind, vocab = spec.get("kind"), spec.get("vocab")
    if kind == "char" and isinstance(vocab, str):
        if has_halves(vocab) or list(vocab) != sorted(set(vocab)) or len(vocab) != vocab_size:
            raise Bad("vocabulary")
        return {"kind": "char", "vocab": vocab}
    if kind == "none" or (kind == "byte" and vocab_size == 256):
        return {"kind": kind}
    raise Bad("tokenizer")


def own(metadata: dict[str, str]) -> Values:
    if metadata["tabgpt_schema"] != "1":
        raise Bad("schema")
    if not {"config", "tokenizer"} <= metadata.keys():
        raise Bad("lacks")
    config = model(parse(metadata["config"]))
    found: Values = {"model": config}
    found["tokenizer"] = tokenizer(parse(metadata["tokenizer"]), config["vocab_size"])
    for name in ("train", "run"):
        text = metadata.get(name)
        found[name] = None if text is None else checked(fields(name), parse(text))
    step = metadata.get("step", "0")
    last = found["train"]["steps"] if found["train"] else 2**32 - 1
    if not re.fullmatch(r"[0-9]{1,10}", step) or int(step) > last:
        raise Bad(f"step {step}")
    found["step"] = int(step)
    found["corpus"] = None
    if "corpus" in metadata:
        given = parse(metadata["corpus"])
        found["corpus"] = {key: given.get(key, "") for key in ("path", "sha256", "name")}
        if any(not isinstance(v, str) or has_halves(v) for v in found["corpus"].values()):
            raise Bad("corpus")
    found["optimizer"] = metadata.get("optimizer")
    if found["optimizer"] is not None and not re.fullmatch(
        r"optimizer-[0-9]+\.safetensors", found["optimizer"]
    ):
        raise Bad("optimizer")
    return found


def of_transformers(text: str) -> Values:
    values = parse(text)
    required = {
        "model_type": "gpt2",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "tie_word_embeddings": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
    }
    for name, wanted in required.items():
        found = values.get(name, None if name == "model_type" else wanted)
        if type(found) is not type(wanted) or found != wanted:
            raise Bad(name)
    activations = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu_erf"}
    activation = values.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in activations:
        raise Bad("activation_function")
    dropouts = [values.get(f"{name}_pdrop", 0.1) for name in ("embd", "attn", "resid")]
    dropout = next(field for field in fields("model") if field["name"] == "dropout")
    if not all(in_range(dropout, p) and p == dropouts[0] for p in dropouts):
        raise Bad("dropout")
    width, inner = values.get("n_embd", 768), values.get("n_inner")
    if inner is not None and (isinstance(inner, bool) or inner in (0, "", [], {})):
        raise Bad("n_inner")
    names = {"vocab_size": 50257, "n_positions": 1024, "n_layer": 12, "n_head": 12}
    sizes = {name: values.get(name, default) for name, default in names.items()}
    config = {
        "vocab_size": sizes["vocab_size"],
        "ctx": sizes["n_positions"],
        "n_layer": sizes["n_layer"],
        "n_head": sizes["n_head"],
        "d_model": width,
        "d_mlp": 0 if inner is None else inner,
        "dropout": dropouts[0],
        "activation": activations[activation],
    }
    nothing = dict.fromkeys(("train", "run", "corpus", "optimizer"))
    return {"model": model(config), "tokenizer": {"kind": "none"}, "step": 0, **nothing}


def judged(made: Description) -> Values | str:
    """What is said; "bad" where it must be refused, "loose" where it may be."""
    try:
        metadata = made.metadata()
        if "tabgpt_schema" in metadata:
            return own(metadata)
        return of_transformers(made.config_file()) if made.foreign else "bad"
    except Bad:
        return "bad"
    except Loose:
        return "loose"


# -- the readers under test ------------------------------------------------------------------------


def check_core(found: Checkpoint) -> None:
    """BackendError where the core refuses it for more than its memory."""
    try:
        core_config(found.config, found.train)
    except BackendError as error:
        if "batch_size x ctx is" not in str(error):
            raise


def python_reads(made: Description, folder: Path) -> Values | str:
    """Through files; the refusal where there is one, other errors pass."""
    header = json.dumps({"__metadata__": made.metadata()}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    config = folder / "config.json"
    if made.foreign:
        config.write_text(made.config_file(), encoding="utf-8", errors="surrogatepass")
    else:
        config.unlink(missing_ok=True)
    try:
        found = checkpoints.describe(folder)
    except CheckpointError as error:
        return str(error)
    check_core(found)
    return {
        "model": found.config.to_dict(),
        "tokenizer": json.loads(found.tokenizer.to_json()),
        "train": found.train and found.train.to_dict(),
        "run": found.run and found.run.to_dict(),
        "corpus": found.corpus,
        "step": found.step,
        "optimizer": found.moments_file,
    }


def page_reads(made: Description, page: Page) -> Values | str:
    files = {"metadata": made.metadata(), "config": made.config_file() if made.foreign else None}
    reply = page.asks(json.dumps(files).encode())
    return str(reply["refused"]) if "refused" in reply else reply


def judge(got: Values | str, truth: Values | str) -> str:
    """What is wrong with an answer; "" where nothing is."""
    if isinstance(got, str):
        return f"refuses what is sound: {got[:200]}" if isinstance(truth, dict) else ""
    if truth == "loose":
        return ""
    if isinstance(truth, str):
        return f"accepts what is bad: {str(got)[:300]}"
    differing = [key for key in truth if got[key] != truth[key]]
    return f"finds {[(key, got[key], truth[key]) for key in differing]}" if differing else ""


def findings(seed: int, numbers: range, count: Counter[str] | None = None) -> Iterator[str]:
    """A line for every answer that is wrong."""
    page = Page("describe")
    count = Counter() if count is None else count
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            made = make(seed, number)
            truth = judged(made)
            count[truth if isinstance(truth, str) else "sound"] += 1
            for who in ("python", "page"):
                try:
                    got = (
                        python_reads(made, Path(folder))
                        if who == "python"
                        else page_reads(made, page)
                    )
                    count[f"{who} {'refused' if isinstance(got, str) else 'accepted'}"] += 1
                    wrong = judge(got, truth)
                except Exception:
                    wrong = f"crashes: {traceback.format_exc(limit=-3)[-700:]}"
                    if page.process.poll() is not None:
                        page = Page("describe")
                if wrong:
                    yield f"seed {seed}, number {number}: {who} {wrong}"
    page.close()


def show(seed: int, number: int) -> str:
    made = make(seed, number)
    return f"{shown(made)}\nthe judge: {judged(made)}"


if __name__ == "__main__":
    fuzz_run.main("fuzz-metadata", findings, show)
