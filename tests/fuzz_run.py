"""The command line of the readers' fuzzers: numbered inputs, findings as lines, and a record."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import record

Findings = Callable[[int, range, Counter[str]], Iterator[str]]


def main(what: str, findings: Findings, show: Callable[[int, int], str]) -> None:
    """Ends with status 1 where there are findings. --only N shows that input first."""
    parser = argparse.ArgumentParser(description=f"{what}: fuzz readers; see the script's head.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="N")
    parser.add_argument("--record", action="store_true", help=f"write bench/records/{what}.json")
    options = parser.parse_args()
    numbers = range(options.count)
    if options.only is not None:
        numbers = range(options.only, options.only + 1)
        print(show(options.seed, options.only))
    count: Counter[str] = Counter()
    found = 0
    began = time.monotonic()
    for line in findings(options.seed, numbers, count):
        found += 1
        print(line, flush=True)
    print(f"{len(numbers)} inputs, {found} findings; {dict(count)}")
    if options.record:
        result = {"inputs": len(numbers), "seed": options.seed, "findings": found}
        result |= {"seconds": round(time.monotonic() - began), "tally": dict(sorted(count.items()))}
        command = f"python tests/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}"
        why = f"{found} of {len(numbers)} inputs were read wrongly"
        print(record.write(what, command, [result], ok=found == 0, why=why))
    sys.exit(1 if found else 0)
