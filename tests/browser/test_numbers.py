"""NaN in a weight, one repeated token, logits of 1e4 and more, by the page's own trainer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tabgpt
import tiny_run
from playground import TINY, Playground, metrics
from playwright.sync_api import BrowserContext, Route, expect
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tabgpt.corpus import make_corpus

BOUND = 3e-6
"""Relative, of a loss against the oracle's: that of the trajectory (tests/trajectory.py)."""

POISON = """
export default async (options) => {
  const module = await createTabgpt(options);
  const open = module._tabgpt_open;
  module._tabgpt_open = (...values) => {
    const session = open(...values);
    globalThis.poison = (name, value) => {
      const text = new TextEncoder().encode(`${name}\\0`);
      const at = module._tabgpt_alloc(text.length);
      new Uint8Array(options.wasmMemory.buffer).set(text, at);
      const tensor = module._tabgpt_tensor_data(session, at);
      new Float32Array(options.wasmMemory.buffer)[tensor / 4] = value;
      module._tabgpt_free(at);
      return tensor !== 0;
    };
    return session;
  };
  return module;
};
"""
"""In place of a build's own export: `poison` writes to a tensor of the session that is open."""


def let_poison(context: BrowserContext) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        code = response.text().replace("export default createTabgpt;", POISON)
        assert "poison" in code
        route.fulfill(response=response, body=code)

    context.route(re.compile(r"/wasm/relaxed-threads/tabgpt\.mjs$"), answer)


def training(playground: Playground, **more: Any) -> None:
    """A run under way that saves all the time."""
    let_poison(playground.page.context)
    playground.open()
    recipe = {**TINY, "steps": 1_000_000, "eval_interval": 1_000_000, "sample_interval": 0}
    playground.set(**recipe, autosave_seconds=0.01, **more)
    playground.press("Start")
    expect(playground.shown("saved-step")).to_be_visible()
    playground.wait_for_step(20)


def poison(playground: Playground, name: str, value: str) -> None:
    worker = next(w for w in playground.page.workers if "/_astro/worker" in w.url)
    assert worker.evaluate(f"name => poison(name, {value})", name)


def resumes(playground: Playground) -> None:
    """What is kept is sound: another page reads it and trains on."""
    playground.page.reload()
    playground.press("Resume the saved run")
    playground.wait_for("Training")
    expect(playground.shown("error")).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transformer.wte.weight", "NaN"),
        ("transformer.h.0.attn.c_attn.weight", "Infinity"),
        ("transformer.h.0.mlp.c_fc.bias", "NaN"),
        ("transformer.ln_f.weight", "NaN"),
    ],
)
def test_a_weight_that_is_not_finite_stops_the_run_and_is_not_kept(
    playground: Playground, name: str, value: str
) -> None:
    training(playground)
    poison(playground, name, value)
    playground.wait_for("Failed")
    said = playground.shown("error")
    expect(said).to_contain_text(re.compile(r"^step \d+: .*training stopped.* is untouched"))
    resumes(playground)


@pytest.mark.parametrize("role", ["m", "v"])
def test_a_moment_that_is_not_finite_stops_the_run_and_is_not_kept(
    playground: Playground, role: str
) -> None:
    training(playground)
    poison(playground, f"{role}:transformer.h.0.mlp.c_fc.weight", "NaN")
    playground.wait_for("Failed")
    expect(playground.shown("error")).to_contain_text("training stopped")
    resumes(playground)


def kept_run(folder: Path, text: str = tiny_run.TEXT, **recipe: Any) -> Path:
    """A run of the oracle's that stands at step 2 of 12."""
    corpus = make_corpus(text.encode(), "tiny.txt")
    run = tabgpt.train(
        tiny_run.recipe(steps=12, **recipe), corpus, out=folder / "run", backend="numpy"
    )
    for metric in run:
        if metric.step == 2:
            break
    run.save()
    run.close()
    return folder / "run"


def oracle_and_page(
    playground: Playground, folder: Path, tmp_path: Path, text: str
) -> tuple[list[float], list[float]]:
    """The losses of both, from the same weights on."""
    playground.open()
    playground.paste(text)
    playground.upload(*folder.iterdir())
    playground.press("Resume the saved run")
    playground.wait_for("Finished")
    page = [line["loss"] for line in metrics(playground.download(tmp_path / "page"))]
    for _ in tabgpt.resume(folder, make_corpus(text.encode(), "tiny.txt")):
        pass
    return [line["loss"] for line in metrics(folder)], page


def scale(folder: Path, factor: float) -> None:
    """Multiplies the last LayerNorm's weight, about 1, and with it every logit."""
    path = folder / "model.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    tensors["transformer.ln_f.weight"] = tensors["transformer.ln_f.weight"] * factor
    save_file(tensors, path, metadata)


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_one_repeated_token_is_learnt_as_by_the_oracle(
    playground: Playground, tmp_path: Path, tokenizer: str
) -> None:
    text = "a" * 2000
    folder = kept_run(tmp_path, text, tokenizer=tokenizer)
    expected, got = oracle_and_page(playground, folder, tmp_path, text)
    assert len(got) == 12
    assert got[2:] == pytest.approx(expected[2:], rel=BOUND, abs=1e-6)
    assert got[-1] <= got[2]


def test_logits_of_ten_thousand_are_learnt_as_by_the_oracle(
    playground: Playground, tmp_path: Path
) -> None:
    folder = kept_run(tmp_path)
    model = tabgpt.load(folder, backend="numpy")
    ids = np.arange(8)[None] % model.config.vocab_size
    scale(folder, 1e4 / np.abs(model.session.logits(ids)).max())
    expected, got = oracle_and_page(playground, folder, tmp_path, tiny_run.TEXT)
    assert expected[2] > 1000
    assert got[2:] == pytest.approx(expected[2:], rel=BOUND)


def test_logits_beyond_float32_stop_the_run_before_a_step(
    playground: Playground, tmp_path: Path
) -> None:
    folder = kept_run(tmp_path)
    scale(folder, 3e38)  # what it normalises reaches beyond 1.2
    playground.open()
    playground.paste(tiny_run.TEXT)
    playground.upload(*folder.iterdir())
    playground.press("Resume the saved run")
    playground.wait_for("Failed")
    expect(playground.shown("error")).to_contain_text("training stopped")
    playground.page.reload()
    expect(playground.shown("saved-step")).to_have_text("2 of 12")
