"""Makes what a checkpoint says of itself, and damages it: the inputs of fuzz_metadata.py.

Each input is a run's metadata, or transformers' config.json, with up to three mistakes, decided by
seed and number alone.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz_files import ODD, Object, deep, write
from tabgpt.config import FIELDS, Field, fields_of

HUGE = [2**24, 2**24 + 1, 2**32 - 1, 4294967295.5, 1e-30, 1e-31, 5e-324, 0.1 + 0.2, 65536, 65537]


@dataclass
class Description:
    """`parts`: JSON objects by their key in the metadata. `texts`: its other keys, as they are."""

    parts: dict[str, Object]
    texts: dict[str, str]
    foreign: bool  # config.json of transformers: parts["config"] alone

    def metadata(self) -> dict[str, str]:
        return {} if self.foreign else {k: write(v) for k, v in self.parts.items()} | self.texts

    def config_file(self) -> str:
        return self.texts.get("file", write(self.parts["config"])) if self.foreign else ""


def number_in(rng: random.Random, field: Field) -> Any:
    """A value in the field's range, its ends among them."""
    if field.type == "choice":
        return rng.choice(field.choices)
    low = field.min if field.min is not None else math.nextafter(field.above or 0, math.inf)
    high = field.max if field.max is not None else math.nextafter(field.below or 0, -math.inf)
    if rng.random() < 0.7:
        return field.default
    if field.type == "int":
        return rng.choice([int(low), int(high), rng.randint(int(low), int(min(high, low + 999)))])
    return rng.choice([low, high, rng.uniform(low, high)])


def group(rng: random.Random, name: str) -> Object:
    return Object([(field.name, number_in(rng, field)) for field in fields_of(name)])


def vocabulary(rng: random.Random) -> str:
    letters = "\n !az\u00e9\u2028\ud7ff\ue000\uffff\U00010000\U0001f98a\U0010ffff"
    return "".join(sorted(rng.sample(letters, rng.randint(1, len(letters)))))


def sound(rng: random.Random) -> Description:
    model = group(rng, "model")
    heads = rng.choice([1, 2, 4])
    model.put("n_head", heads)
    model.put("d_model", heads * rng.choice([1, 8, 32, 128]))
    if rng.random() < 0.2:
        return Description({"config": foreign(rng, model)}, {}, True)
    kind = rng.choice(["char", "char", "byte", "none"])
    vocab = vocabulary(rng)
    spec = [("kind", kind)] + ([("vocab", vocab)] if kind == "char" else [])
    sizes = {"char": len(vocab), "byte": 256, "none": rng.choice([1, 65, 2**24])}
    model.pairs.insert(0, ("vocab_size", sizes[kind]))
    parts = {"config": model, "tokenizer": Object(spec)}
    train = group(rng, "train")
    train.put("steps", rng.choice([1, 30, 10**9]))
    if rng.random() < 0.8:
        parts |= {"train": train, "run": group(rng, "run")}
    if rng.random() < 0.5:
        names = [("path", "/tmp/\u00e9.txt"), ("sha256", "ab" * 32), ("name", "\u00e9.txt")]
        parts["corpus"] = Object(names)
    texts = {"tabgpt_schema": "1", "format": "pt", "producer": "tabgpt 0.1.0"}
    texts |= {"step": str(rng.choice([0, 1, train.get("steps")])), "backend": "native"}
    if rng.random() < 0.5:
        texts["optimizer"] = f"optimizer-{int(texts['step']):06d}.safetensors"
    return Description(parts, texts, False)


def foreign(rng: random.Random, model: Object) -> Object:
    """As transformers writes it, or shorter: what equals GPT2Config's defaults may be left out."""
    dropout = rng.choice([0.0, 0.1, 0])
    pairs: list[tuple[str, Any]] = [
        ("model_type", "gpt2"),
        ("vocab_size", rng.choice([1, 65, 50257])),
        ("n_positions", model.get("ctx")),
        ("n_embd", model.get("d_model")),
        ("n_layer", model.get("n_layer")),
        ("n_head", model.get("n_head")),
        ("n_inner", rng.choice([None, 1, 64])),
        ("activation_function", rng.choice(["gelu_new", "gelu_pytorch_tanh", "gelu"])),
        *((name, dropout) for name in ("embd_pdrop", "attn_pdrop", "resid_pdrop")),
        ("layer_norm_epsilon", 1e-5),
        ("scale_attn_weights", True),
        ("tie_word_embeddings", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("reorder_and_upcast_attn", False),
        ("add_cross_attention", False),
        ("summary_type", "cls_index"),
    ]
    if rng.random() < 0.3:
        defaults = {"layer_norm_epsilon", "scale_attn_weights", "n_inner", "add_cross_attention"}
        pairs = [pair for pair in pairs if pair[0] not in defaults]
    return Object(pairs)


def damage(rng: random.Random, made: Description) -> None:
    """One mistake."""
    key = rng.choice(list(made.parts))
    part = made.parts[key]

    def odd() -> Any:
        around = [
            v for f in FIELDS.values() for v in (f.min, f.max, f.above, f.below) if v is not None
        ]
        near = rng.choice(around)
        edges = [near, near + 1, near - 1, math.nextafter(near, math.inf), math.nextafter(near, -1)]
        return rng.choice([rng.choice(ODD), rng.choice(edges), rng.choice(HUGE)])

    def value() -> None:
        if part.pairs:
            part.put(rng.choice(part.pairs)[0], odd())

    def twice() -> None:
        if part.pairs:
            name, old = rng.choice(part.pairs)
            part.pairs.insert(rng.randrange(len(part.pairs) + 1), (name, rng.choice([old, odd()])))

    def gone() -> None:
        if part.pairs:
            part.pairs.pop(rng.randrange(len(part.pairs)))

    def more() -> None:
        names = ["extra", "N_layer", "__proto__", "constructor", "", "kind", "vocab", "path"]
        part.pairs.append((rng.choice(names), odd()))

    def heads() -> None:
        config = made.parts["config"]
        config.put("n_head", rng.choice([1, 2, 3, 5, 7, 1024, 1025]))
        config.put("d_model", rng.choice([1, 3, 128, 129, 258, 65536]))

    def vocab() -> None:
        """Of the right length, and not sorted, or of halves."""
        text = vocabulary(rng)
        wrong = [text[::-1], text + text[-1:], "", text + "\ud800", "\udc00\ud800", "\ud800\udc00"]
        made.parts["tokenizer" if "tokenizer" in made.parts else key].put(
            "vocab", rng.choice(wrong)
        )
        if rng.random() < 0.7:
            made.parts["config"].put("vocab_size", rng.randint(1, 14))

    def no_object() -> None:
        texts = ["", "null", "[]", "5", '"a"', "true", "{", "{}{}", "\ufeff{}", "[{}]", "NaN"]
        text = rng.choice([*texts, str(deep(rng))])
        if made.foreign:
            made.texts["file"] = text
        else:
            del made.parts[key]
            made.parts.setdefault("config", Object([]))
            made.texts[key] = text

    def flipped() -> None:
        text = write(part)
        at = rng.randrange(len(text))
        pick = rng.choice('{}[]":,0129-+.eE \\\t\n\0\x7fntf')
        changed = text[:at] + rng.choice([pick, "", pick + text[at]]) + text[at + 1 :]
        made.texts["file" if made.foreign else key] = changed

    def step() -> None:
        texts = ["-1", "+1", "1.0", "1e1", "0x1", "", " 1", "1 ", "1_0", "\u0661", "01", "9" * 10]
        more = ["4294967295", "4294967296", "1000000001", "9" * 400, "NaN", "null", "31", "2"]
        made.texts["step"] = rng.choice([*texts, *more])

    def optimizer() -> None:
        names = [
            "",
            "optimizer-1.safetensors",
            "optimizer-.safetensors",
            "../optimizer-1.safetensors",
        ]
        names += ["optimizer-\u0661.safetensors", "optimizer-1.safetensors\n", "model.safetensors"]
        made.texts["optimizer"] = rng.choice(names)

    def schema() -> None:
        made.texts["tabgpt_schema"] = rng.choice(["2", "", "1.0", " 1", "01"])

    def no_key() -> None:
        name = rng.choice([*made.parts, *made.texts])
        made.texts.pop(name, None)
        if name != "config" and name != "tabgpt_schema":
            made.parts.pop(name, None)

    kinds: list[Callable[[], None]] = [value] * 8
    kinds += [twice, gone, more, more, heads, no_object, flipped, flipped]
    if not made.foreign:
        kinds += [vocab, vocab, step, step, optimizer, schema, no_key]
    rng.choice(kinds)()


def make(seed: int, number: int) -> Description:
    rng = random.Random(f"{seed}:{number}")
    made = sound(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        damage(rng, made)
    return made


def shown(made: Description) -> str:
    return json.dumps({"metadata": made.metadata(), "config.json": made.config_file()}, indent=1)
