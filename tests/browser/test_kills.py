"""Tabs killed at moments that change with the date; 200 of them by tests/kills_tab.py."""

from __future__ import annotations

import time

import kills_tab

COUNT = 4


def test_kills_at_random_moments_change_nothing() -> None:
    with kills_tab.tabs() as tab:
        *_, last = kills_tab.kills(tab, COUNT, time.strftime("%Y-%m-%d"))
    assert last.kills == COUNT and last.runs >= 1
