"""What a stage gained over another, and why it is less where it is less than it should be.

`python bench/gains.py` writes the gains of the record anew, from its samples.
stages.json says of each gain the least that its cause explains, and the control that was
measured in the same run: two runs of one thread each, which share nothing, for what a
machine's two cores have to give; a 64-bit build in a V8 without bounds checks. And two
threads are slow where their cores share no cache, which crossing.mjs tells: what one of
them wrote then takes three times as long to the other.
"""

from __future__ import annotations

import json
from typing import Any

import pairs
import record

Row = dict[str, Any]
NEAR = 0.9
"""A gain this close to its ceiling is the ceiling's."""
APART_NS = 120.0
"""Handing a number over takes 60 ns between cores that share a cache, 200 between others."""
SENTENCES = {
    "threads": (
        "{gain:.2f} × of one thread, below {least:g} ×: two runs of one thread each, which share"
        " nothing, came to {control:.2f} × on these cores in the same run."
    ),
    "apart": (
        "{gain:.2f} × of one thread, below {least:g} ×: the two cores shared no cache in this run;"
        " handing a number from one to the other took {handover:.0f} ns."
    ),
    "lanes": (
        "{gain:.2f} × of SIMD, below {least:g} ×: two runs of one thread each, which share nothing,"
        " gained {control:.2f} × by it in the same run. Threads also wait for what the other core"
        " wrote, no shorter time for it; handing a number over took {handover:.0f} ns."
    ),
    "width": (
        "{gain:.2f} × of 32 bits, below {least:g} ×: each address is checked. In a V8 without"
        " these checks, a switch that no page has, it was {control:.2f} × in the same run."
    ),
}


def gain_of(definition: Row, seconds: dict[str, list[float]], handover_ns: float) -> Row:
    """One gain: `median` (q1, q3) of pair ratios, `least`, the control's, and `why`.

    why is empty where the gain is as large as it should be, and None where nothing explains it.
    """
    stage, over, least = definition["stage"], definition["over"], definition["least"]
    gain: Row = {"over": over, "least": least, **pairs.ratio(seconds[stage], seconds[over])}
    control = definition.get("control")
    if control is not None:
        beside = definition.get("beside", over)
        gain["control"] = {"stage": control, **pairs.ratio(seconds[control], seconds[beside])}
    return {**gain, "why": why(definition.get("cause"), gain, handover_ns)}


def why(cause: str | None, gain: Row, handover_ns: float) -> str | None:
    """The sentence that explains a gain below its least."""
    median, least = gain["median"], gain["least"]
    if median >= least:
        return ""
    control = gain["control"]["median"] if "control" in gain else None
    if cause == "threads" and median < NEAR * control:
        cause = "apart" if handover_ns >= APART_NS else None
    if cause in ("width", "lanes") and control < least:
        cause = None
    if cause == "lanes" and handover_ns < APART_NS:
        cause = None
    if cause is None:
        return None
    return SENTENCES[cause].format(gain=median, least=least, control=control, handover=handover_ns)


def add(rows: list[Row], definitions: list[Row], handover_ns: float) -> None:
    """Gives each row of one preset its `gains`, where it has any."""
    seconds = {row["stage"]: row["seconds"] for row in rows}
    for row in rows:
        mine = [each for each in definitions if each["stage"] == row["stage"]]
        if mine:
            row["gains"] = [gain_of(each, seconds, handover_ns) for each in mine]


def main() -> None:
    path = record.RECORDS / "evolution.json"
    data = json.loads(path.read_text())
    table = json.loads((record.ROOT / "bench/stages.json").read_text())
    for preset in dict.fromkeys(row["preset"] for row in data["results"]):
        rows = [row for row in data["results"] if row["preset"] == preset]
        add(rows, table["gains"], max(rows[0]["handover_ns"]))
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
