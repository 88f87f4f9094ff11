"""A run in the tab: it learns, it obeys, it refuses what cannot work."""

from __future__ import annotations

import re

import pytest
from playground import TINY, Playground
from playwright.sync_api import expect


def test_the_page_says_what_a_run_takes_and_what_it_runs_on(playground: Playground) -> None:
    playground.open()
    expect(playground.shown("memory")).to_have_text(re.compile(r"MiB"))
    expect(playground.shown("engine-reason")).to_contain_text("fastest build")
    before = playground.shown("parameters").inner_text()
    playground.page.locator("#preset").select_option("nanogpt-cpu")
    expect(playground.shown("parameters")).not_to_have_text(before)
    assert playground.field("d_model").input_value() == "128"


def test_a_run_that_no_tab_can_hold_is_refused_before_it_starts(playground: Playground) -> None:
    playground.open()
    playground.choose_preset("behemoth")
    playground.set(batch_size=128)
    expect(playground.shown("plan").get_by_role("alert")).to_contain_text("reaches 16.00 GiB")
    expect(playground.page.get_by_role("button", name="Start")).to_be_disabled()


def test_the_loss_falls_on_the_chart_and_in_validation(playground: Playground) -> None:
    playground.open()
    playground.page.locator("#preset").select_option("tiny")
    playground.train(steps=150, eval_interval=75, warmup_steps=10, sample_interval=100)
    chart = playground.page.get_by_role("img", name=re.compile("^Training loss from"))
    said = chart.get_attribute("aria-label") or ""
    first, last = map(float, re.findall(r"(\d\.\d+) at step", said))
    assert first > 4.0 and last < 3.0, said
    assert float(playground.shown("val-loss").inner_text()) < 3.0
    assert playground.step == 150
    live = playground.page.locator("[data-testid=samples] li[data-live=true]")
    expect(live).to_have_count(1)
    expect(live.locator(".log-mark")).to_contain_text("100")


def test_pause_holds_the_step_and_one_step_makes_one(playground: Playground) -> None:
    playground.open()
    playground.set(**TINY, steps=100_000)
    playground.press("Start")
    playground.wait_for_step(5)
    playground.press("Pause")
    playground.wait_for("Paused")
    held = playground.step
    playground.page.wait_for_timeout(300)
    assert playground.step == held
    playground.press("One step")
    playground.wait_for_step(held + 1)
    assert playground.step == held + 1
    playground.press("Resume")
    playground.wait_for_step(held + 20)
    playground.press("Stop")
    playground.wait_for("Stopped")
    expect(playground.page.get_by_role("button", name="Start")).to_be_enabled()


def test_stop_is_obeyed_in_the_middle_of_a_long_evaluation(playground: Playground) -> None:
    playground.open()
    # The whole split takes this width seconds.
    playground.set(**{**TINY, "d_model": 256}, steps=1000, eval_interval=2, eval_batches=0)
    playground.press("Start")
    playground.wait_for("Evaluating")
    playground.press("Stop")
    playground.wait_for("Stopped")
    assert playground.step == 2


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"n_layer": "0"}, "n_layer", "from 1 to 1023"),
        ({"lr": "-1"}, "lr", "above 0"),
        ({"lr": "fast"}, "lr", "not a number"),
        ({"batch_size": "2.5"}, "batch_size", "whole number"),
        ({"dropout": "1"}, "dropout", "below 1"),
        ({"steps": ""}, "steps", "Empty"),
        ({"n_head": "5"}, "n_head", "do not divide"),
        ({"n_head": "1", "d_model": "256"}, "n_head", "at most 128"),
        ({"seed": "4294967296"}, "seed", "4294967295"),
    ],
)
def test_a_wrong_value_is_named_beside_its_field(
    playground: Playground, values: dict[str, str], field: str, words: str
) -> None:
    playground.open()
    playground.set(**values)
    expect(playground.problem(field)).to_contain_text(words)
    expect(playground.field(field)).to_have_attribute("aria-invalid", "true")
    expect(playground.page.get_by_role("button", name="Start")).to_be_disabled()


def test_a_text_that_is_too_short_names_both_lengths(playground: Playground) -> None:
    playground.open()
    playground.paste("to be or not to be")
    expect(playground.problem("ctx")).to_contain_text("18 tokens give 17 for training and 1")
    expect(playground.page.get_by_role("button", name="Start")).to_be_disabled()
    playground.paste("")
    expect(playground.page.get_by_role("alert")).to_contain_text("empty")


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_any_text_trains_emoji_included(playground: Playground, tokenizer: str) -> None:
    playground.open()
    playground.paste("Grüße, \U0001f98a und \U0001f43b! " * 60)
    playground.train(**TINY, tokenizer=tokenizer, steps=30)
    playground.page.get_by_label("Prompt").fill("\U0001f98a")
    assert playground.sample()


def test_sampling_is_the_same_for_the_same_seed_and_stops_where_it_is_told(
    playground: Playground,
) -> None:
    playground.open()
    playground.train(**TINY, steps=40, sample_interval=0)
    playground.page.get_by_label("Prompt").fill("ROMEO:")
    playground.set(max_new_tokens=60)
    first, second = playground.sample(), playground.sample()
    assert first == second and len(first) == 60
    playground.set(sample_seed=2)
    assert playground.sample() != first
    playground.set(sample_seed=1)
    stop = first[20]
    playground.page.get_by_label("Stop text").fill(stop)
    assert playground.sample() == first[: first.index(stop)]


def test_an_unknown_prompt_character_is_named(playground: Playground) -> None:
    playground.open()
    playground.train(**TINY, steps=5)
    playground.page.get_by_label("Prompt").fill("caf\u00e9")
    playground.press("Write")
    expect(playground.shown("sample-error")).to_contain_text("'\u00e9' (U+00E9)")


def test_a_build_and_threads_can_be_chosen(playground: Playground) -> None:
    playground.open()
    playground.page.get_by_label("WASM build").select_option("scalar")
    playground.train(**TINY, steps=5)
    expect(playground.shown("engine-line")).to_have_text("wasm-scalar, 1 thread")
