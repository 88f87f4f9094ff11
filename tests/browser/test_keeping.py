"""What the tab keeps: exact resume after a reload, and runs that the command line takes up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tabgpt
import tiny_run
from playground import TINY, Playground, metrics
from playwright.sync_api import expect
from safetensors.numpy import load_file

RUN: dict[str, float] = {
    "n_layer": 2,
    "n_head": 3,
    "d_model": 48,
    "ctx": 32,
    "batch_size": 16,
    "grad_accum": 2,
    "steps": 120,
    "warmup_steps": 10,
    "dropout": 0.1,
    "eval_interval": 40,
    "eval_batches": 2,
}
"""Slow enough to be paused in its middle."""
RESUME = "Resume the saved run"


def reload(playground: Playground) -> None:
    playground.page.reload()
    expect(playground.shown("saved-step")).to_be_visible()


def test_a_reload_resumes_exactly(playground: Playground, tmp_path: Path) -> None:
    playground.open()
    playground.train(**RUN)
    whole = metrics(playground.download(tmp_path / "whole"))
    assert [line["step"] for line in whole] == list(range(1, 121))

    playground.press("Delete")
    playground.press("Delete it")
    expect(playground.shown("saved-step")).to_have_count(0)
    playground.press("Start")
    playground.wait_for_step(30)
    playground.press("Pause")
    playground.wait_for("Paused")
    reload(playground)
    assert playground.shown("saved-step").inner_text() != "120 of 120"
    playground.press(RESUME)
    playground.wait_for("Finished")
    resumed = metrics(playground.download(tmp_path / "resumed"))

    exact = ["step", "loss", "lr", "grad_norm", "val_loss"]
    ours, theirs = ([[line.get(key) for key in exact] for line in run] for run in (whole, resumed))
    assert ours == theirs
    for file in ("model.safetensors", "optimizer-000120.safetensors"):
        first, second = (load_file(tmp_path / run / file) for run in ("whole", "resumed"))
        assert first.keys() == second.keys()
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_tab_that_is_closed_mid_run_loses_only_what_followed_the_autosave(
    playground: Playground,
) -> None:
    playground.open()
    playground.set(**{**TINY, "steps": 100_000}, autosave_seconds=0.2)
    playground.press("Start")
    expect(playground.shown("saved-step")).to_be_visible(timeout=20_000)
    playground.wait_for_step(100)
    reload(playground)
    saved = int(playground.shown("saved-step").inner_text().split()[0].replace(",", ""))
    assert saved > 0
    playground.press(RESUME)
    playground.wait_for_step(saved + 5)


def test_a_second_tab_does_not_overwrite_the_first_ones_run(playground: Playground) -> None:
    playground.open()
    playground.set(**TINY, steps=100_000, autosave_seconds=0.2)
    playground.press("Start")
    expect(playground.shown("saved-step")).to_be_visible(timeout=20_000)
    second = Playground(playground.page.context.new_page(), playground.url).open()
    second.set(**TINY, steps=30)
    second.press("Start")
    second.press("Start anew")
    second.wait_for("Finished")
    expect(second.shown("unsaved")).to_contain_text("Another tab")
    second.page.reload()
    expect(second.shown("saved-step")).to_contain_text("of 100,000")


def test_a_pasted_text_is_kept_with_its_run(playground: Playground) -> None:
    playground.open()
    playground.paste(tiny_run.TEXT)
    playground.set(**{**TINY, "ctx": 8, "steps": 100_000})
    playground.press("Start")
    playground.wait_for_step(20)
    playground.press("Stop")
    playground.wait_for("Stopped")
    reload(playground)
    playground.press(RESUME)
    playground.wait_for("Training")


def test_the_command_line_opens_and_goes_on_with_a_tabs_run(
    playground: Playground, tmp_path: Path
) -> None:
    playground.open()
    playground.paste(tiny_run.TEXT)
    playground.set(**{**RUN, "ctx": 8, "steps": 5000, "eval_interval": 5000})
    playground.press("Start")
    playground.wait_for_step(20)
    playground.press("Stop")
    playground.wait_for("Stopped")
    folder = playground.download(tmp_path / "run")
    done = metrics(folder)[-1]["step"]
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        f"optimizer-{done:06d}.safetensors",
    }
    model = tabgpt.load(folder)
    assert len(model.generate("The", max_new_tokens=20, seed=1)) > 0
    text = tmp_path / "text.txt"
    text.write_text(tiny_run.TEXT, encoding="utf-8")
    run = tabgpt.resume(folder, text)
    assert next(iter(run)).step == done + 1


def test_the_tab_goes_on_with_a_run_of_the_command_line(
    playground: Playground, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    run = tabgpt.train(tiny_run.recipe(steps=400), tiny_run.corpus(), out=folder)
    for metric in run:
        if metric.step == 12:
            break
    run.save()
    run.close()
    playground.open()
    playground.paste(tiny_run.TEXT)
    playground.upload(*folder.iterdir())
    expect(playground.shown("saved-step")).to_have_text("12 of 400")
    playground.page.get_by_label("Prompt").fill("The \U0001f98a")
    assert playground.sample()
    playground.press(RESUME)
    playground.wait_for("Finished")
    assert playground.step == 400
    downloaded = metrics(playground.download(tmp_path / "back"))
    assert [line["step"] for line in downloaded] == list(range(1, 401))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:1000], "truncated"),
        (lambda data: b"", "empty"),
        (lambda data: b"\xff" * 8 + data[8:], "header"),
        (lambda data: data + b"\0" * 4, "belong to no tensor"),
        (lambda data: data[:-4] + np.float32("nan").tobytes(), "holds NaN"),
    ],
)
def test_a_damaged_upload_is_refused_by_name(
    playground: Playground, tmp_path: Path, damage, words: str
) -> None:
    folder = tmp_path / "run"
    run = tabgpt.train(tiny_run.recipe(steps=2), tiny_run.corpus(), out=folder)
    list(run)
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    playground.open()
    playground.upload(file)
    expect(playground.shown("error")).to_contain_text(words)
    expect(playground.shown("saved-step")).to_have_count(0)
