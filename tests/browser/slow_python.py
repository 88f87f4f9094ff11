"""The page /python with numpy: every example, offline. `make pyodide-test` runs it."""

from __future__ import annotations

import re

import pytest
from notebook import Notebook
from playwright.sync_api import BrowserContext, Page
from trajectory import BOUND


@pytest.fixture
def notebook(page: Page, lab_url: str) -> Notebook:
    notebook = Notebook(page, lab_url).open()
    numpy = page.get_by_test_id("notebook").get_attribute("data-numpy")
    assert numpy, "the site is without numpy: run `make pyodide-numpy site`"
    return notebook


def test_the_oracle_and_the_core_agree_in_the_tab(notebook: Notebook) -> None:
    output = notebook.choose("compare").run()
    assert notebook.standing.startswith("Finished")
    largest = re.search(r"Largest relative difference: (\S+)", output)
    assert largest and 0 < float(largest[1]) <= BOUND


def test_the_command_line_trains_in_the_tab_without_a_network(
    notebook: Notebook, page: Page
) -> None:
    context: BrowserContext = page.context
    context.set_offline(True)
    output = notebook.choose("command").run()
    assert notebook.standing.startswith("Finished")
    losses = [float(loss) for loss in re.findall(r"  loss (\d+\.\d+)", output)]
    assert losses[-1] < 0.5 * losses[0]
    assert "Finished: 150 steps" in output and "backend native (1 thread, wasm-simd)" in output
    assert "\nShe" in output


def test_the_default_corpus_is_there_and_a_run_resumes(notebook: Notebook) -> None:
    """10 steps and 10 resumed are 20 in a row, bit for bit."""
    output = notebook.write("""
import json
from tabgpt.cli import app

plan = "--preset tiny --schedule constant --dropout 0.1 --ctx 16 --d-model 24"
app(f"train {plan} --steps 20 --out whole".split(), standalone_mode=False)
app(f"train {plan} --steps 10 --out parts".split(), standalone_mode=False)
app("train --resume parts --extend-to 20".split(), standalone_mode=False)

def losses(run):
    return [json.loads(line)["loss"] for line in open(f"{run}/metrics.jsonl")]

print("steps", len(losses("parts")), "same", losses("whole") == losses("parts"))
""").run()
    assert "corpus shakespeare.txt" in output
    assert output.rstrip().endswith("steps 20 same True")
