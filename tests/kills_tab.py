"""Kills the tab at random moments of runs that save after every few steps.

python tests/kills_tab.py --count 200

A death is SIGKILL to the page's renderer; now and then the page closes instead, or the whole
browser is killed. After each the page is opened again and the run goes on, until it is done: then
every file of it must hold the bits of a run that nobody killed. Two runs of unlike lengths take
turns in the browser's one place, so that a new run's first save, too, is killed over the last one.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count as endless
from pathlib import Path
from typing import Any

import chromium
import tiny_run
from lab_browser import driver, serve_lab
from playground import TINY, Playground
from playwright.sync_api import BrowserContext, Error, Page, Playwright

ROOT = Path(__file__).resolve().parents[1]
COUNT = 200
STEPS = (60, 61)
"""Of the two runs; by them a saved run is known. Their moments' file names meet on the way."""
RECIPE: dict[str, Any] = {
    **TINY,
    "ctx": 8,
    "grad_accum": 2,
    "dropout": 0.1,
    "eval_interval": 20,
    "eval_batches": 2,
    "sample_interval": 0,
    "autosave_seconds": 0.005,
}
LONGEST_LIFE_S = 2.5
"""Of a tab after its Start or Resume; a whole run takes about as long."""
PATIENCE_S = 10
DEATHS = {"renderer killed": 8, "browser killed": 1, "page closed": 1}
"""With their weights."""

FILES = """async (read) => {
  const found = {};
  const visit = async (folder, path) => {
    for await (const [name, handle] of folder.entries()) {
      if (handle.kind === "directory") { await visit(handle, `${path}${name}/`); continue; }
      const file = await handle.getFile();
      const letters = [];
      if (read) for (const byte of new Uint8Array(await file.arrayBuffer())) letters.push(byte);
      found[path + name] = read ? btoa(String.fromCharCode(...letters)) : file.size;
    }
  };
  await visit(await navigator.storage.getDirectory(), "");
  return found;
}"""
"""All that the page keeps: sizes by path, or the content in base64."""


@dataclass
class Summary:
    """What happened."""

    deaths: Counter[str] = field(default_factory=Counter)
    in_a_save: int = 0
    """Deaths that left more in the file system than one whole save."""
    over_another_run: int = 0
    """Deaths of a run before its first save, with another run's save there."""
    runs: int = 0
    """Runs that were killed and ended with the bits of the one that was not."""

    @property
    def kills(self) -> int:
        return sum(self.deaths.values())

    def row(self) -> dict[str, Any]:
        return {
            **{death.replace(" ", "_"): self.deaths[death] for death in DEATHS},
            "kills": self.kills,
            "in_a_save": self.in_a_save,
            "over_another_run": self.over_another_run,
            "runs": self.runs,
        }


def processes(profile: Path) -> dict[int, str]:
    """The browser's processes, itself first: command lines by process id."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True
    ).stdout
    lines = [line.split(maxsplit=2) for line in listed.splitlines()]
    all_ = {int(pid): (int(parent), rest[0] if rest else "") for pid, parent, *rest in lines}
    mine: dict[int, str] = {
        pid: args
        for pid, (_, args) in all_.items()
        if f"--user-data-dir={profile}" in args and "--type=" not in args and "chrom" in args
    }
    while more := {
        pid: args for pid, (parent, args) in all_.items() if parent in mine and pid not in mine
    }:
        mine |= more
    return mine


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def wait_until_gone(pids: list[int]) -> None:
    """The browser has noticed: until then it may give a new page to the spare renderer it had."""
    until = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)


class Tab:
    """One browser profile on disk, and the page that is open in it."""

    def __init__(self, playwright: Playwright, url: str, profile: Path) -> None:
        self._playwright = playwright
        self._url = url
        self._profile = profile
        self._context: BrowserContext | None = None

    def _fresh_page(self) -> Page:
        if self._context is None:
            path = chromium.find_chromium()
            assert path is not None, chromium.HOW
            # Root, as in most containers, has no sandbox of Chromium's own.
            self._context = self._playwright.chromium.launch_persistent_context(
                self._profile, executable_path=path, args=["--no-sandbox"]
            )
        page = self._context.new_page()
        for other in self._context.pages:
            if other is not page:
                other.close()
        return page

    def files_before_opening(self) -> dict[str, int]:
        """From a bare file of the origin, on which nothing clears up. Leaves the page there."""
        self.page = self._fresh_page()
        self.page.goto(f"{self._url}theme.js")
        sizes: dict[str, int] = self.page.evaluate(FILES, False)
        return sizes

    def open(self) -> Playground:
        return Playground(self.page, self._url).open()

    def files(self) -> dict[str, bytes]:
        held: dict[str, str] = self.page.evaluate(FILES, True)
        return {path: base64.b64decode(content) for path, content in held.items()}

    @property
    def version(self) -> str:
        devtools = self.page.context.new_cdp_session(self.page)
        return str(devtools.send("Browser.getVersion")["product"]).replace("/", " ")

    def die(self, death: str) -> None:
        if death == "page closed":
            self.page.close()
            return
        assert self._context is not None
        mine = processes(self._profile)
        if death == "renderer killed":
            renderers = [pid for pid, args in mine.items() if "--type=renderer" in args]
            with self.page.expect_event("crash"):
                kill(renderers)
            wait_until_gone(renderers)
            return
        with self._context.expect_event("close"):
            kill(list(mine))
        self._context = None

    def close(self) -> None:
        if self._context is not None:
            self._context.close()


def saves_in(files: dict[str, Any]) -> dict[str, list[str]]:
    """File names of each save's folder."""
    saves: dict[str, list[str]] = {}
    for path in files:
        root, kind, *rest = path.split("/")
        if (root, kind) == ("tabgpt", "saves"):
            saves.setdefault(rest[0], []).append(rest[-1])
    return saves


def run_of(files: dict[str, bytes]) -> dict[str, Any]:
    """The one save that there is: its files' bytes, but metrics.jsonl's lines without times."""
    (number,) = saves_in(files)
    folder = f"tabgpt/saves/{number}/"
    run: dict[str, Any] = {
        path.removeprefix(folder): data for path, data in files.items() if path.startswith(folder)
    }
    lines = [json.loads(line) for line in run["metrics.jsonl"].splitlines()]
    run["metrics.jsonl"] = [
        {k: v for k, v in line.items() if k not in ("wall_s", "tokens_per_s")} for line in lines
    ]
    return run


def saved_step(playground: Playground) -> tuple[int, int]:
    """(step, steps of the run) that the page says; (0, 0) where it keeps none."""
    card = playground.shown("saved-step")
    if card.count() == 0:
        return 0, 0
    step, _, total = card.inner_text().split()
    return int(step), int(total)


def begin(playground: Playground, steps: int) -> None:
    """Starts the run anew, or resumes it where the browser keeps it."""
    if saved_step(playground)[1] == steps:
        playground.press("Resume the saved run")
        return
    playground.paste(tiny_run.TEXT)
    playground.set(**RECIPE, steps=steps)
    kept = saved_step(playground)[1] > 0
    playground.press("Start")
    if kept:
        playground.press("Start anew")


def live(playground: Playground, seconds: float) -> bool:
    """True where the run ended before its life did."""
    state = playground.shown("state")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if state.inner_text() == "Finished":
            return True
        playground.page.wait_for_timeout(min(20, max(1, 1000 * (until - time.monotonic()))))
    return False


def complaints(playground: Playground) -> list[str]:
    shown = (playground.shown(name) for name in ("error", "notice", "unsaved"))
    return [place.inner_text() for place in shown if place.count() > 0]


def check(tab: Tab, whole: dict[str, Any], what: str) -> None:
    """The kept run is `whole`, to the last bit, with nothing of another save beside it."""
    run = run_of(tab.files())
    assert sorted(run) == sorted(whole), f"{what}: {sorted(run)} instead of {sorted(whole)}"
    for name, content in whole.items():
        assert run[name] == content, f"{what}: {name} differs from that of the run nobody killed"


@contextmanager
def tabs() -> Iterator[Tab]:
    """A profile of its own, which outlives the browsers that are killed."""
    with (
        serve_lab() as url,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        tab = Tab(driver(), url, Path(folder) / "profile")
        try:
            yield tab
        finally:
            tab.close()


def undisturbed(tab: Tab, steps: int) -> dict[str, Any]:
    """The files of a run that nobody kills."""
    tab.files_before_opening()
    playground = tab.open()
    begin(playground, steps)
    playground.wait_for("Finished")
    return run_of(tab.files())


def kills(tab: Tab, count: int, seed: object) -> Iterator[Summary]:
    """Kills `count` times and sees each run to its end; the summary after each death and run.

    AssertionError says what was wrong.
    """
    rng = random.Random(str(seed))
    whole = {steps: undisturbed(tab, steps) for steps in STEPS}
    summary = Summary()
    for number in endless():
        steps = STEPS[number % 2]
        reached, deaths = 0, 0
        while True:
            saves = saves_in(tab.files_before_opening())
            summary.in_a_save += len(saves) > 1
            playground = tab.open()
            step, total = saved_step(playground)
            what = f"run {number}, kill {summary.kills}"
            assert not complaints(playground), f"{what}: {complaints(playground)}"
            assert len(saves_in(tab.files())) == 1, f"{what}: {saves_in(tab.files())}"
            if total == steps:
                assert step >= reached, f"{what}: step {step} is kept after step {reached} was"
                reached = step
            else:  # its first save was not whole yet, so the last run stands
                check(tab, whole[total], f"{what}, the run before")
                assert reached == 0, f"{what}: the run's step {reached} is lost"
                summary.over_another_run += deaths > 0
            if reached == steps:
                break
            begin(playground, steps)
            if summary.kills == count:
                playground.wait_for("Finished")
                break
            if live(playground, rng.random() * LONGEST_LIFE_S):
                break
            death = rng.choices(list(DEATHS), list(DEATHS.values()))[0]
            tab.die(death)
            summary.deaths[death] += 1
            deaths += 1
            yield summary
        check(tab, whole[steps], f"run {number}")
        summary.runs += deaths > 0
        yield summary
        if summary.kills == count:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill the tab in the middle of its runs.")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="of the moments")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "bench"))
    import record

    summary = Summary()
    with tabs() as tab:
        for summary in kills(tab, options.count, options.seed):
            print(f"\r{summary.kills} kills, {summary.runs} runs", end="", flush=True)
        version = tab.version
    print()
    for name, value in summary.row().items():
        print(f"{name.replace('_', ' '):<18}{value:>5}")
    if options.count >= COUNT:
        path = record.write(
            "kills-tab",
            f"python tests/kills_tab.py --count {options.count} --seed {options.seed}",
            [summary.row()],
            ok=True,
            why="every killed run ended with the bits of the run that nobody killed",
            browser=version,
        )
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, Error) as error:
        sys.exit(f"\n{error}")
