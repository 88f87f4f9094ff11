"""`python -m tabgpt`."""

from .cli import main

main()
