"""The page /python without numpy: the wheel in a tab, from the site alone, under its policy."""

from __future__ import annotations

import re

import pytest
from notebook import Notebook
from page_checks import overflow, violations
from playwright.sync_api import Browser, Page, Route, expect


def leave_out_numpy(page: Page) -> None:
    """Serves the site as it is where numpy was never built."""

    def without(route: Route) -> None:
        listed = route.fetch().json()
        listed["packages"].pop("numpy", None)
        listed["wheels"] = [name for name in listed["wheels"] if not name.startswith("numpy-")]
        route.fulfill(json=listed)

    page.route("**/python/packages.json", without)


def losses(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]


def test_the_core_trains_in_a_cell_and_nothing_leaves_the_site(page: Page, lab_url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    leave_out_numpy(page)
    notebook = Notebook(page, lab_url).open()
    output = notebook.run()  # without numpy the page offers the core first
    assert notebook.standing.startswith("Finished")
    assert "7,296 parameters" in output and losses(output)[-1] < 0.3 * losses(output)[0]
    assert [url for url in asked if not url.startswith((lab_url, "blob:"))] == []
    # the same policy as every page's: no eval, no host but this one
    policy = page.request.get(notebook.url).headers["content-security-policy"]
    assert "'unsafe-eval'" not in policy and "connect-src 'self'" in policy


def test_it_says_what_an_example_needs(page: Page, lab_url: str) -> None:
    leave_out_numpy(page)
    notebook = Notebook(page, lab_url).open().choose("compare")
    expect(page.locator(".notice")).to_contain_text("make pyodide-numpy site")
    assert "No module named 'numpy'" in notebook.run()
    assert notebook.standing.startswith("Ended with an error")
    assert "no numpy" in page.locator(".aside").first.inner_text()


def test_names_stay_and_errors_show_the_cells_own_lines(page: Page, bare_url: str) -> None:
    """On a static host that sends no headers, too."""
    leave_out_numpy(page)
    notebook = Notebook(page, bare_url).open()
    assert notebook.write("kept = 41\nkept + 1").run() == "42\n"
    output = notebook.write("print(kept)\n\n1 / 0").run()
    assert output.startswith("41\nTraceback") and 'File "<cell>", line 3' in output
    assert output.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "_pyodide" not in output
    notebook.write("while True: pass").start()
    page.get_by_role("button", name="Stop").click()
    notebook.wait_for("ready")
    assert "started anew" in notebook.standing
    assert "NameError" in notebook.write("kept").run()


def test_a_run_is_interrupted_where_the_page_is_isolated(page: Page, lab_url: str) -> None:
    leave_out_numpy(page)
    notebook = Notebook(page, lab_url).open()
    notebook.write("kept = 1").run()
    notebook.write("print('on', flush=True)\nwhile True: pass").start()
    expect(page.get_by_test_id("output")).to_contain_text("on")
    page.get_by_role("button", name="Stop").click()
    notebook.wait_for("ready")
    assert "KeyboardInterrupt" in notebook.output
    assert notebook.write("kept").run() == "1\n"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_and_a_phone_shows_all(
    browser: Browser, lab_url: str, theme: str
) -> None:
    """Axe is injected, which the page's own policy forbids: this context alone bypasses it."""
    context = browser.new_context(
        color_scheme=theme,
        bypass_csp=True,
        reduced_motion="reduce",
        viewport={"width": 360, "height": 800},
    )
    page = context.new_page()
    leave_out_numpy(page)
    notebook = Notebook(page, lab_url).open()
    notebook.run()
    assert violations(page) == []
    assert overflow(page) == 0
    context.close()
