"""Takes the README's picture of the page: python bench/picture.py (after `make site`)."""

from __future__ import annotations

import sys

from record import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from lab_browser import launch_chromium, serve_lab
from playground import Playground

PICTURE = ROOT / ".github" / "page.png"
PRESET = "small"
STEP = 600


def main() -> None:
    with serve_lab() as address, launch_chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1440}, color_scheme="dark")
        playground = Playground(page, address).open()
        playground.choose_preset(PRESET)
        playground.press("Start")
        while playground.step < STEP:
            page.wait_for_timeout(200)
        page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
