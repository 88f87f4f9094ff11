"""The page on a GPU: Chromium's software adapter, which computes what a GPU would, slowly.

A software adapter is never chosen by itself, so the tests choose it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import page_run
import pytest
import tiny_run
from lab_browser import SOFTWARE_GPU_FLAGS, launch_chromium
from playground import PATIENCE_MS, TINY, Playground, metrics
from playwright.sync_api import Browser, Page, Route, expect
from trajectory import GPU_BOUND

STEPS = 50
LOST_STEPS = 20
"""Of a run that loses its device at the fifth: half a second each for a GPU that is a program."""
ON_GPU = re.compile("^GPU, .*swiftshader", re.IGNORECASE)
ON_CPU = re.compile("^wasm-")
HOLD_DEVICES = """
const request = GPUAdapter.prototype.requestDevice;
globalThis.devices = [];
GPUAdapter.prototype.requestDevice = async function (...values) {
  const device = await request.apply(this, values);
  globalThis.devices.push(device);
  return device;
};
"""
"""Before a worker's own code: every device that it opens."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_chromium(*SOFTWARE_GPU_FLAGS) as browser:
        yield browser


@pytest.fixture
def gpu(playground: Playground) -> Playground:
    return open_gpu(playground)


def open_gpu(playground: Playground) -> Playground:
    """The page with a small text and the GPU chosen."""
    playground.open()
    playground.paste(tiny_run.TEXT)
    choose(playground, "gpu")
    return playground


def choose(playground: Playground, device: str) -> None:
    option = playground.page.locator(f"#device option[value={device}]")
    expect(option).to_be_enabled(timeout=PATIENCE_MS)
    playground.page.get_by_label("Train on").select_option(device)


def test_a_software_gpu_is_offered_but_not_chosen(playground: Playground) -> None:
    playground.open()
    expect(playground.shown("gpu-reason")).to_contain_text(
        "program on the CPU", timeout=PATIENCE_MS
    )
    expect(playground.page.get_by_label("Train on")).to_have_value("cpu")


def test_fifty_steps_on_the_gpu_stay_within_the_bound(gpu: Playground, tmp_path: Path) -> None:
    gpu.train(**page_run.recipe(STEPS))
    expect(gpu.shown("engine-line")).to_have_text(ON_GPU)
    lines = metrics(gpu.download(tmp_path / "run"))
    losses = np.array([line["loss"] for line in lines])
    expected, val_loss = page_run.oracle(STEPS)
    assert np.max(abs(losses - expected) / expected) <= GPU_BOUND
    assert lines[-1]["val_loss"] == pytest.approx(val_loss, rel=GPU_BOUND)


def test_a_run_moves_between_gpu_and_cpu(gpu: Playground) -> None:
    gpu.set(**TINY, steps=100_000, sample_interval=0, eval_interval=100_000)
    gpu.press("Start")
    step = 3
    for device, line in (("cpu", ON_CPU), ("gpu", ON_GPU), ("cpu", ON_CPU)):
        gpu.wait_for_step(step)
        gpu.press("Stop")
        gpu.wait_for("Stopped")
        step = gpu.step
        choose(gpu, device)
        gpu.press("Resume")
        gpu.wait_for("Training")
        expect(gpu.shown("engine-line")).to_have_text(line)
        step += 3
    gpu.wait_for_step(step)


def test_a_run_survives_the_gpus_process(browser: Browser, gpu: Playground) -> None:
    """It goes on from its last save; no step is counted twice and no loss jumps."""
    gpu.set(**TINY, steps=100_000, sample_interval=0, eval_interval=100_000)
    gpu.press("Start")
    gpu.wait_for_step(4)
    gpu.press("Pause")
    gpu.wait_for("Paused")
    saved = gpu.step
    gpu.press("Resume")
    gpu.wait_for_step(saved + 3)
    kill_gpu_process(browser)
    expect(gpu.shown("notice")).to_contain_text(
        re.compile(rf"the GPU was lost.*goes on from step {saved}, its last state in memory"),
        timeout=PATIENCE_MS,
    )
    gpu.wait_for_step(saved + 3)
    expect(gpu.shown("state")).to_have_text("Training")


def test_a_destroyed_device_changes_no_loss(page: Page, lab_url: str, tmp_path: Path) -> None:
    """`device.destroy()` in the middle: every step is there once, with the oracle's loss."""
    hold_devices(page)
    gpu = open_gpu(Playground(page, lab_url))
    gpu.set(**page_run.recipe(LOST_STEPS))
    gpu.press("Start")
    gpu.wait_for_step(5)
    assert destroy_devices(page) > 0
    expect(gpu.shown("notice")).to_contain_text("the GPU was lost", timeout=PATIENCE_MS)
    gpu.wait_for("Finished")
    lines = metrics(gpu.download(tmp_path / "run"))
    assert [line["step"] for line in lines] == list(range(1, LOST_STEPS + 1))
    expected, _ = page_run.oracle(LOST_STEPS)
    losses = np.array([line["loss"] for line in lines])
    assert np.max(abs(losses - expected) / expected) <= GPU_BOUND


def test_the_proof_page_proves_the_gpu_too(page: Page, lab_url: str) -> None:
    """The trajectory on the GPU, after every build; its bound is the GPU's."""
    page.goto(f"{lab_url.rstrip('/')}/check/")
    check = page.get_by_test_id("check")
    expect(check).to_have_attribute("data-phase", "done", timeout=2 * PATIENCE_MS)
    expect(check.get_by_role("heading")).to_contain_text("and its GPU, agree with the oracle")
    expect(page.locator("tr[data-build=webgpu]")).to_contain_text(
        re.compile(r"agrees, bound 2e-5.*swiftshader", re.DOTALL | re.IGNORECASE)
    )


def hold_devices(page: Page) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=HOLD_DEVICES + response.text())

    page.context.route(re.compile(r"/_astro/worker[^/]*\.js$"), answer)


def destroy_devices(page: Page) -> int:
    """In all workers; gives how many there were."""
    script = """() => {
      const held = globalThis.devices ?? [];
      for (const device of held) device.destroy();
      return held.length;
    }"""
    return sum(worker.evaluate(script) for worker in page.workers)


def kill_gpu_process(browser: Browser) -> None:
    devtools = browser.new_browser_cdp_session()
    processes = devtools.send("SystemInfo.getProcessInfo")["processInfo"]
    devtools.detach()
    (pid,) = (process["id"] for process in processes if process["type"] == "GPU")
    os.kill(pid, signal.SIGKILL)
