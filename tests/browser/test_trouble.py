"""What goes wrong around a run: nowhere to save it, a full disk, another tab, a dead worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_run
from playground import TINY, Playground, metrics, unpack
from playwright.sync_api import Browser, BrowserContext, Page, Route, Worker, expect

NO_FILES = """navigator.storage.getDirectory = () =>
  Promise.reject(new DOMException("not in a private window", "SecurityError"));"""

FULL_DISK = """globalThis.full = true;
const { createWritable } = FileSystemFileHandle.prototype;
FileSystemFileHandle.prototype.createWritable = async function (...options) {
  const writable = await createWritable.apply(this, options);
  if (globalThis.full) {
    const refusal = new DOMException("the quota is used up", "QuotaExceededError");
    writable.write = () => Promise.reject(refusal);
  }
  return writable;
};"""

LONG = {**TINY, "steps": 1_000_000, "eval_interval": 1000, "sample_interval": 0}


def before_the_worker(context: BrowserContext, code: str) -> None:
    """Runs code in the training worker ahead of its own: an init script reaches pages only."""

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=f"(() => {{ {code} }})();\n{response.text()}")

    context.route(re.compile(r"/_astro/worker[^/]*\.js$"), answer)


def training_worker(page: Page) -> Worker:
    return next(worker for worker in page.workers if "/_astro/worker" in worker.url)


@pytest.fixture
def rough(browser: Browser, lab_url: str) -> Iterator[Playground]:
    """A page that may complain to the console: what is tested is made to fail."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())  # leaves the page where it asks
    yield Playground(page, lab_url)
    context.close()


def test_without_files_a_run_lasts_as_long_as_the_tab_and_says_so(
    playground: Playground, tmp_path: Path
) -> None:
    before_the_worker(playground.page.context, NO_FILES)
    playground.open()
    saved = playground.page.get_by_role("region", name="Saved run")
    expect(saved).to_contain_text("until the tab closes")
    playground.set(**{**LONG, "autosave_seconds": 0.2})
    playground.press("Start")
    playground.wait_for_step(50)
    playground.press("Stop")
    playground.wait_for("Stopped")
    folder = playground.download(tmp_path / "run")
    done = metrics(folder)[-1]["step"]

    # Another worker takes the run over: here that of an upload, then that of the resumed run.
    playground.upload(*folder.iterdir())
    expect(playground.shown("state")).to_have_text("Ready")
    playground.press("Resume the saved run")
    playground.wait_for_step(done + 5)
    playground.press("Stop")
    playground.wait_for("Stopped")
    assert metrics(playground.download(tmp_path / "more"))[-1]["step"] > done


def test_leaving_asks_where_the_tab_holds_the_only_copy(rough: Playground) -> None:
    before_the_worker(rough.page.context, NO_FILES)
    rough.open().train(**TINY, steps=5)
    expect(rough.shown("saved-step")).to_be_visible()
    with rough.page.expect_event("dialog") as asked:
        rough.page.reload()
    assert asked.value.type == "beforeunload"
    rough.open()


def test_a_full_disk_ends_no_training_and_the_run_can_be_downloaded(
    playground: Playground, tmp_path: Path
) -> None:
    page = playground.page
    before_the_worker(page.context, FULL_DISK)
    playground.open()
    playground.set(**{**LONG, "autosave_seconds": 0.2})
    playground.press("Start")
    told = playground.shown("unsaved")
    expect(told).to_contain_text("could not be saved (the quota is used up). Training goes on")
    reached = playground.step
    playground.wait_for_step(reached + 50)
    with page.expect_download() as waiting:
        playground.press("Download this run")
    assert metrics(unpack(waiting.value, tmp_path / "run"))[-1]["step"] > reached
    expect(playground.shown("saved-step")).to_have_count(0)

    training_worker(page).evaluate("() => { full = false; }")
    expect(playground.shown("saved-step")).to_be_visible()
    expect(told).to_have_count(0)
    playground.press("Stop")
    playground.wait_for("Stopped")
    page.reload()
    expect(playground.shown("saved-step")).to_contain_text("of 1,000,000")


def test_a_second_tab_can_download_its_run_and_saves_it_once_the_first_is_gone(
    playground: Playground, tmp_path: Path
) -> None:
    playground.open()
    playground.set(**{**LONG, "autosave_seconds": 0.2})
    playground.press("Start")
    expect(playground.shown("saved-step")).to_be_visible()
    second = Playground(playground.page.context.new_page(), playground.url).open()
    second.set(**{**LONG, "steps": 500_000, "autosave_seconds": 0.2})
    second.press("Start")
    second.press("Start anew")
    expect(second.shown("unsaved")).to_contain_text("Another tab")
    with second.page.expect_download() as waiting:
        second.press("Download this run")
    config = unpack(waiting.value, tmp_path / "run") / "model.safetensors"
    assert b'\\"steps\\":500000' in config.read_bytes()
    playground.page.close()
    expect(second.shown("unsaved")).to_have_count(0)
    expect(second.shown("saved-step")).to_contain_text("of 500,000")


def test_a_worker_that_dies_fails_the_run_and_the_next_one_starts(rough: Playground) -> None:
    rough.open()
    rough.set(**LONG)
    rough.press("Start")
    rough.wait_for_step(20)
    training_worker(rough.page).evaluate(
        "() => { setTimeout(() => { throw new Error('boom'); }); }"
    )
    rough.wait_for("Failed")
    expect(rough.shown("error")).to_contain_text("boom")
    rough.press("Start")
    rough.wait_for("Training")
    expect(rough.shown("error")).to_have_count(0)


@pytest.mark.parametrize(
    ("missing", "place", "words"),
    [
        (r"/wasm/scalar/tabgpt\.wasm$", "error", '"scalar" did not start'),
        (r"/_astro/worker", "error", "script could not be loaded"),
        (r"/corpus/", "corpus", "paste a text or choose a file"),
    ],
)
def test_a_file_that_the_server_lacks_is_named(
    rough: Playground, missing: str, place: str, words: str
) -> None:
    rough.page.route(re.compile(missing), lambda route: route.fulfill(status=404))
    rough.page.goto(rough.url)
    shown = rough.shown("error") if place == "error" else rough.page.get_by_role("alert")
    expect(shown).to_contain_text(words, timeout=20_000)
    expect(rough.page.get_by_role("button", name="Start", exact=True)).to_be_disabled()


def test_a_run_that_blows_up_stops_and_says_what_is_kept(playground: Playground) -> None:
    playground.open()
    wild = {"lr": 10, "warmup_steps": 0, "weight_decay": 1, "grad_clip": 0}
    playground.set(**{**LONG, **wild})
    playground.press("Start")
    playground.wait_for("Failed")
    expect(playground.shown("error")).to_contain_text(
        re.compile(r"is (NaN|-?Infinity), so.*not been saved yet")
    )
    assert len(playground.shown("train-loss").inner_text()) < 10
    expect(playground.page.get_by_role("button", name="Start", exact=True)).to_be_enabled()


def test_an_upload_asks_before_it_takes_the_place_of_a_run(playground: Playground) -> None:
    playground.open().train(**TINY, steps=5)
    playground.press("Upload")
    dialog = playground.page.get_by_role("dialog", name="Replace the saved run?")
    expect(dialog).to_contain_text("the one at step 5")
    with playground.page.expect_file_chooser():
        playground.press("Choose files")


def test_a_resumed_run_shows_its_own_settings_and_text(playground: Playground) -> None:
    playground.open()
    expect(playground.page.get_by_label("Preset")).to_have_value("small")
    playground.paste(tiny_run.TEXT)
    playground.set(**{**LONG, "ctx": 8})
    expect(playground.page.get_by_label("Preset")).to_have_value("")
    playground.press("Start")
    playground.wait_for_step(10)
    playground.press("Stop")
    playground.wait_for("Stopped")
    playground.page.reload()
    assert playground.field("d_model").input_value() == "96"
    playground.press("Resume the saved run")
    playground.wait_for("Training")
    assert playground.field("d_model").input_value() == "16"
    assert playground.field("d_mlp").input_value() == "0"
    expect(playground.page.get_by_text("This run trains on pasted text")).to_be_visible()


def test_a_text_without_the_prompt_has_live_samples_all_the_same(playground: Playground) -> None:
    playground.open()
    playground.paste("abc " * 200)
    expect(playground.page.get_by_label("Prompt")).to_have_value("")
    playground.page.get_by_label("Prompt").fill("xyz")
    playground.train(**TINY, steps=20, sample_interval=10)
    expect(playground.page.locator("[data-testid=samples] li[data-live=true]")).to_have_count(2)
    expect(playground.shown("notice")).to_contain_text("without the prompt")
