"""Runs in Pyodide: `tabgpt` with these arguments, in the folder given first."""

from __future__ import annotations

import os
import sys

from tabgpt.cli import app

os.chdir(sys.argv[1])
app(sys.argv[2:], standalone_mode=False)
