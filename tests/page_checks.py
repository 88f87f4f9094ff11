"""What every page of the site is held to: axe-core's rules, and a width that fits the screen."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parents[1] / "browser" / "node_modules" / "axe-core" / "axe.min.js"


def violations(page: Page) -> list[str]:
    """What axe finds, a sentence each; the context must bypass the page's policy."""
    page.add_script_tag(path=AXE)
    found = page.evaluate("() => axe.run().then(result => result.violations)")
    return [
        f"{rule['id']}: {rule['help']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> int:
    """Pixels that the page is wider than its window."""
    return page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
