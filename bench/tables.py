"""Writes the README's figures from the records: python bench/tables.py [--check]

A block `<!-- figures: NAME -->` ... `<!-- /figures -->` in README.md is replaced by
what the function of that name below makes of its record. --check writes nothing
and fails where the README says something else than the records.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import record

README = record.ROOT / "README.md"
BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)


def source(data: dict[str, Any]) -> str:
    """The line under each table: what measured it, where and at which commit."""
    machine = data["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores" + (
        f", {machine['browser']}" if "browser" in machine else ""
    )
    return (
        f"\n<sub>`{data['command']}` on {where}; commit {data['commit']}, {data['date']};"
        f" `bench/records/{data['what']}.json`</sub>\n"
    )


def learns() -> str:
    """Final validation losses of nanogpt-cpu, on the native core and in the tab."""
    data = record.read("learns")
    rows = [row for row in data["results"] if row["where"] in ("native", "tab")]
    names = {"native": "CLI, native core", "tab": "browser tab, WebAssembly"}
    table = "| where | steps | validation loss, whole split |\n|---|---|---|\n"
    for row in rows:
        where = names[row["where"]] + (f" ({row['build']})" if "build" in row else "")
        final = row["val_losses"][-1][1]
        table += f"| {where} | {row['steps']} | {final:.3f} |\n"
    compared = next(row for row in data["results"] if row["where"] == "compared")
    table += (
        f"\nThe first {len(rows[0]['first_losses'])} losses of the two runs differ by at most"
        f" {compared['first_losses_relative']:.1e} (relative).\n"
    )
    return table + source(data)


def lr_sweep() -> str:
    """Validation loss by preset and learning rate."""
    data = record.read("lr-sweep")
    rates = sorted({row["lr"] for row in data["results"]})
    table = "| preset | steps | " + " | ".join(f"lr {rate:g}" for rate in rates) + " |\n"
    table += "|---|---|" + "---|" * len(rates) + "\n"
    for preset in dict.fromkeys(row["preset"] for row in data["results"]):
        rows = {row["lr"]: row for row in data["results"] if row["preset"] == preset}
        best = min(row["val_loss"] for row in rows.values())
        cells = []
        for rate in rates:
            if rate not in rows:
                cells.append("")
                continue
            loss = rows[rate]["val_loss"]
            cells.append(f"**{loss:.3f}**" if loss == best else f"{loss:.3f}")
        steps = next(iter(rows.values()))["steps"]
        table += f"| {preset} | {steps} | " + " | ".join(cells) + " |\n"
    return table + source(data)


FIGURES: dict[str, Callable[[], str]] = {"learns": learns, "lr-sweep": lr_sweep}


def filled(text: str) -> str:
    """The README's text with each block made anew; KeyError names an unknown block."""
    return BLOCK.sub(lambda match: match[1] + FIGURES[match[2]]() + match[4], text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where the README is out of date")
    check: bool = parser.parse_args().check
    text = README.read_text()
    new = filled(text)
    if check and new != text:
        raise SystemExit("README.md differs from the records: run python bench/tables.py")
    README.write_text(new)


if __name__ == "__main__":
    main()
