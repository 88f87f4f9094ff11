"""summary.py REPORTS STATUS: sums up the JUnit reports of one run, and is its verdict.

Fails when the run failed (STATUS), when a report is missing, and when the live
comparison with transformers (tests/interop) was skipped or not there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

SUITES = ("vitest", "pytest")
LIVE = "interop"


def main() -> None:
    reports, status = Path(sys.argv[1]), int(sys.argv[2])
    problems = [f"the run ended with status {status}"] if status else []
    counts = dict.fromkeys(("failed", "passed", "skipped"), 0)
    live, seconds = 0, 0.0
    for suite in SUITES:
        report = reports / f"{suite}.xml"
        if not report.exists():
            problems.append(f"{suite} wrote no report")
            continue
        for case in ElementTree.parse(report).iter("testcase"):
            outcome = "passed"
            if case.find("failure") is not None or case.find("error") is not None:
                outcome = "failed"
            elif case.find("skipped") is not None:
                outcome = "skipped"
            counts[outcome] += 1
            seconds += float(case.get("time", 0))
            name = f"{case.get('classname')}.{case.get('name')}"
            if suite == "pytest" and f".{LIVE}." in f".{name}":
                live += outcome == "passed"
                if outcome == "skipped":
                    problems.append(f"{name} was skipped: the live comparison must run")
    if not live:
        problems.append(f"no test of tests/{LIVE} ran")
    for problem in problems:
        print(f"error: {problem}")
    total = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    print(f"==== {total or 'no tests ran'} in {seconds:.0f}s ({live} live interop) ====")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
