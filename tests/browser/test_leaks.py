"""A run that is started anew leaves nothing of the last one: threads, files, listeners, heap."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from playground import TINY, Playground
from playwright.sync_api import Browser, Page

RESTARTS = 3
STEPS = 200
SLACK = {"Nodes": 50, "JSHeapUsedSize": 1_000_000, "files": 8}
"""V8 and Chromium keep caches of their own; a life's worth would be more. All else is exact."""


def held(browser: Browser, page: Page) -> Counter[str]:
    """Counts of what the page and its processes hold, garbage collected."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    devtools.send("HeapProfiler.collectGarbage")
    metrics = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
    devtools.detach()
    wanted = ("Documents", "Frames", "JSEventListeners", "Nodes", "JSHeapUsedSize")
    count = Counter({name: int(metrics[name]) for name in wanted})
    system = browser.new_browser_cdp_session()
    processes = system.send("SystemInfo.getProcessInfo")["processInfo"]
    system.detach()
    for process in processes:
        folder = Path(f"/proc/{process['id']}")
        count["files"] += len(list((folder / "fd").iterdir()))
        for thread in (folder / "task").iterdir():
            count["workers"] += (thread / "comm").read_text().startswith("DedicatedWorker")
    return count


def settled(browser: Browser, page: Page, lives: list[Counter[str]]) -> Counter[str]:
    """`held`, once no more workers are there than in the first life: Chromium gives a worker that
    was told to end two seconds before it ends its thread."""
    deadline = time.monotonic() + 30
    while True:
        count = held(browser, page)
        if not lives or count["workers"] <= lives[0]["workers"] or time.monotonic() > deadline:
            return count
        page.wait_for_timeout(200)


def test_three_restarts_leave_everything_flat(browser: Browser, playground: Playground) -> None:
    playground.open()
    playground.set(**TINY, steps=STEPS, sample_interval=50, eval_interval=50, autosave_seconds=0.5)
    lives = []
    for life in range(1 + RESTARTS):
        playground.press("Start")
        if life > 0:
            playground.press("Start anew")
        playground.wait_for("Finished")
        assert playground.step == STEPS
        lives.append(settled(browser, playground.page, lives))
    warm, *restarts = lives
    assert warm["workers"] >= 1
    for after in restarts:
        for what, before in warm.items():
            assert after[what] <= before + SLACK.get(what, 0), (what, lives)
