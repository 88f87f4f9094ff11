"""Does it learn? python bench/learns.py CORPUS [--no-tab]

The preset nanogpt-cpu, all 2000 steps, once through the CLI on the native core
and once in a Chromium tab on the built site (`make site` first), from the same
seed. The claims (nanoGPT itself reports a validation loss of 1.88 for this line):

- the CLI's whole-split validation loss is at most 1.90;
- the tab's first 50 losses equal the CLI's within 1e-5 relative;
- the two final validation losses differ by at most 0.02.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import record
import runs
import tab

PRESET = "nanogpt-cpu"
FINAL_BOUND = 1.90
COMPARED_STEPS = 50
LOSS_BOUND = 1e-5
VAL_BOUND = 0.02


def curve(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """What the record keeps of one run; no time, since its two sides do not alternate."""
    return {
        "steps": len(metrics),
        "first_losses": [line["loss"] for line in metrics[:COMPARED_STEPS]],
        "val_losses": [
            [m["step"], m["val_loss"]] for m in metrics if m.get("val_loss") is not None
        ],
    }


def largest_difference(a: list[float], b: list[float]) -> float:
    """max |a-b| / |a| over the compared steps."""
    return max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--no-tab", action="store_true", help="the CLI's run only; writes no record"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        native = curve(runs.train(Path(folder) / "run", arguments.corpus, PRESET))
    native_final = native["val_losses"][-1][1]
    print(f"native: validation loss {native_final:.4f}", flush=True)
    if arguments.no_tab:
        return
    metrics, browser = tab.train(arguments.corpus, PRESET)
    in_tab = curve(metrics)
    tab_final = in_tab["val_losses"][-1][1]
    difference = largest_difference(native["first_losses"], in_tab["first_losses"])
    gap = abs(native_final - tab_final)
    print(f"tab: validation loss {tab_final:.4f}")
    ok = native_final <= FINAL_BOUND and difference <= LOSS_BOUND and gap <= VAL_BOUND
    record.write(
        "learns",
        f"python bench/learns.py {arguments.corpus.name}",
        [
            {"where": "native", **native},
            {"where": "tab", "build": browser["build"], **in_tab},
            {"where": "compared", "first_losses_relative": difference, "final": gap},
        ],
        ok=ok,
        why=f"native {native_final:.4f} <= {FINAL_BOUND}; the first {COMPARED_STEPS} losses within"
        f" {difference:.1e} (bound {LOSS_BOUND:g}); finals within {gap:.4f} (bound {VAL_BOUND})",
        corpus=runs.corpus_identity(arguments.corpus),
        browser=browser["version"],
    )
    if not ok:
        raise SystemExit("a claim does not hold: see bench/records/learns.json")


if __name__ == "__main__":
    main()
