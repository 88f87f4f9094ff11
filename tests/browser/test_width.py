"""Which width of WASM memory the page gives a run, and what it says of it."""

from __future__ import annotations

import re

from playground import TINY, Playground
from playwright.sync_api import Page, expect

BEHEMOTH = "473,244,160"
NEEDED = re.compile(r"takes 8\.\d\d GiB \([\d,]+ bytes\).*reaches 4\.00 GiB \([\d,]+ bytes\)")


def choose_behemoth(playground: Playground) -> None:
    playground.choose_preset("behemoth")
    playground.set(tokenizer="byte")
    expect(playground.shown("parameters")).to_have_text(BEHEMOTH)


def test_a_run_gets_the_width_that_it_needs_or_the_one_that_is_chosen(
    playground: Playground,
) -> None:
    playground.open()
    reason, start = (
        playground.shown("width-reason"),
        playground.page.get_by_role("button", name="Start"),
    )
    expect(reason).to_contain_text("32-bit memory")
    choose_behemoth(playground)
    expect(reason).to_contain_text("64-bit memory: this run needs more than the 4.00 GiB")
    expect(start).to_be_enabled()

    memory = playground.page.get_by_label("Memory", exact=True)
    memory.select_option("32")
    refusal = playground.shown("plan").get_by_role("alert")
    expect(refusal).to_contain_text(NEEDED)
    expect(refusal).to_contain_text("Choose 64-bit memory")
    expect(start).to_be_disabled()

    memory.select_option("64")
    expect(refusal).to_have_count(0)
    playground.choose_preset("tiny")
    playground.train(**TINY, steps=20)
    expect(playground.shown("engine-line")).to_contain_text("64-bit")


def test_where_there_is_no_64_bit_memory_the_refusal_says_who_has_it(
    page: Page, bare_url: str
) -> None:
    """A host without headers: no threads, which the 64-bit builds need."""
    playground = Playground(page, bare_url).open()
    choose_behemoth(playground)
    refusal = playground.shown("plan").get_by_role("alert")
    expect(refusal).to_contain_text(NEEDED)
    expect(refusal).to_contain_text("Chrome and Edge from version 133 and in Firefox from 134")
    expect(page.get_by_role("button", name="Start")).to_be_disabled()


def test_a_pill_tells_of_64_bit_memory_and_how_it_is_asked_for(playground: Playground) -> None:
    playground.open()
    pill = playground.shown("capabilities").get_by_role("group").filter(has_text="64-bit memory")
    expect(pill.locator("summary")).to_contain_text("yes")
    pill.locator("summary").click()
    expect(pill.get_by_text("“address: i64”")).to_be_visible()
