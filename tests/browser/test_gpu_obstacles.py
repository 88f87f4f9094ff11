"""Why the page trains on the CPU, in a real browser: each obstacle has its own sentence.

Chromium's GPU here is a program; what a person's browser lacks is taken from it in the worker,
before the page's own code runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import tiny_run
from lab_browser import SOFTWARE_GPU_FLAGS, launch_chromium
from playground import PATIENCE_MS, TINY, Playground
from playwright.sync_api import Browser, BrowserContext, Route, expect

NO_API = "delete WorkerNavigator.prototype.gpu;"
NO_ADAPTER = "GPU.prototype.requestAdapter = () => Promise.resolve(null);"
HARDWARE = """
const names = { vendor: "acme", architecture: "one", device: "", description: "" };
for (const [name, value] of Object.entries({ ...names, isFallbackAdapter: false })) {
  Object.defineProperty(GPUAdapterInfo.prototype, name, { get: () => value });
}
"""
"""The adapter says that it is hardware."""
COUNT = """
globalThis.compiled = 0;
const compile = GPUDevice.prototype.createComputePipelineAsync;
GPUDevice.prototype.createComputePipelineAsync = function (...values) {
  globalThis.compiled++;
  return compile.apply(this, values);
};
"""
RIGHT, WRONG = "0.044715", "0.0448"
"""tanh GELU's coefficient, in shaders/gelu.wgsl: 2e-3 of itself, in one kernel of many."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_chromium(*SOFTWARE_GPU_FLAGS) as browser:
        yield browser


def prepare(context: BrowserContext, code: str = "", spoil: bool = False) -> None:
    """Runs code in the training worker ahead of its own; may spoil a shader that it carries."""

    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.text()
        if spoil:
            assert RIGHT in body
            body = body.replace(RIGHT, WRONG)
        route.fulfill(response=response, body=f"(() => {{ {code} }})();\n{body}")

    context.route(re.compile(r"/_astro/worker[^/]*\.js$"), answer)


@pytest.mark.parametrize(
    ("code", "spoil", "sentence"),
    [
        (NO_API, False, "This browser gives the page no WebGPU, so it trains on the CPU."),
        (NO_ADAPTER, False, "found no GPU that it lets a page use, so it trains on the CPU."),
        (HARDWARE, True, "This GPU failed the page's check of its arithmetic"),
    ],
    ids=["no API", "no adapter", "failed check"],
)
def test_a_gpu_that_is_of_no_use_is_not_offered(
    playground: Playground, code: str, spoil: bool, sentence: str
) -> None:
    prepare(playground.page.context, code, spoil)
    playground.open()
    reason = playground.shown("gpu-reason")
    expect(reason).to_contain_text(sentence, timeout=PATIENCE_MS)
    if spoil:
        expect(reason).to_contain_text(
            re.compile(r"the page trains on the CPU: .+ is off by \S+, allowed \S+\.")
        )
    expect(playground.page.get_by_label("Train on")).to_have_value("cpu")
    expect(playground.page.locator("#device option[value=gpu]")).to_be_disabled()
    playground.paste(tiny_run.TEXT)
    playground.train(**TINY, steps=3, sample_interval=0)
    expect(playground.shown("engine-line")).to_have_text(re.compile("^wasm-"))


def test_a_gpu_that_passes_is_chosen_and_not_checked_twice(playground: Playground) -> None:
    prepare(playground.page.context, HARDWARE + COUNT)
    for visit in range(2):
        playground.open()
        expect(playground.shown("gpu-reason")).to_have_text(
            "The GPU (acme one) computes what the CPU does.", timeout=PATIENCE_MS
        )
        expect(playground.page.get_by_label("Train on")).to_have_value("gpu")
        (worker,) = (w for w in playground.page.workers if "/_astro/worker" in w.url)
        assert (worker.evaluate("compiled") == 0) == (visit == 1)
    playground.paste(tiny_run.TEXT)
    playground.train(**TINY, steps=3, sample_interval=0)
    expect(playground.shown("engine-line")).to_have_text(re.compile("^GPU, acme one"))


def test_a_software_gpu_that_fails_the_check_trains_nothing(playground: Playground) -> None:
    """It is checked once it is chosen: the run does not begin, and the page says why."""
    prepare(playground.page.context, spoil=True)
    playground.open()
    playground.paste(tiny_run.TEXT)
    option = playground.page.locator("#device option[value=gpu]")
    expect(option).to_be_enabled(timeout=PATIENCE_MS)
    playground.page.get_by_label("Train on").select_option("gpu")
    playground.set(**TINY, steps=3)
    playground.press("Start")
    expect(playground.shown("error")).to_contain_text(
        "This GPU failed the page's check of its arithmetic", timeout=PATIENCE_MS
    )
    assert playground.step == 0
