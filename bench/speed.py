"""The README's one table of speed: a line for each thing that is compared, from all records."""

from __future__ import annotations

import record
from markdown import Row, machine_of, ratio, shape_of

RECORDS = (
    "matmul-native",
    "matmul-tab",
    "matmul-peers",
    "step-torch",
    "step-tab",
    "step-threads",
    "step-sizes",
    "generation",
)

Line = tuple[str, str, str]
"""What, against what, the ratio."""


def where(rows: list[Row], **values: object) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def split(rows: list[Row], cube: int) -> dict[str, list[Row]]:
    """Rows of one cubed size, and of the training step's shapes."""
    name = f"{cube}³"
    return {
        name: [row for row in rows if shape_of(row) == name],
        "training shapes": [row for row in rows if len(set(row["shape"])) > 1],
    }


def threads_of(n: int) -> str:
    return f"{n} thread{'s' * (n > 1)}"


def native_products(rows: list[Row]) -> list[Line]:
    return [
        (f"product {name}, native, {threads_of(n)}", "OpenBLAS", ratio(chosen))
        for n in (1, 2)
        for name, chosen in split(where(rows, threads=n), 512).items()
    ]


def tab_products(rows: list[Row]) -> list[Line]:
    lines = []
    for build in ("relaxed", "simd"):
        mine = where(rows, against="registers", build=build)
        best = where(mine, loop=mine[-1]["loop"])  # the last is the one that all shapes met
        lines += [
            (f"product {name}, tab, {build}, 1 thread", "fastest loop in registers", ratio(chosen))
            for name, chosen in split(best, 512).items()
        ]
    two = where(rows, against="one thread", build="relaxed-threads")
    big = split(two, 1024)["1024³"]
    return [*lines, ("product 1024³, tab, relaxed, 2 threads", "1 thread", ratio(big))]


def other_libraries(rows: list[Row]) -> list[Line]:
    what = "products 512³ and training shapes, tab, 2 threads"
    products: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        products.setdefault((shape_of(row), row["form"]), []).append(row)
    best = [faster(peers) for peers in products.values()]
    return [
        *(
            (what, peer, ratio(where(rows, peer=peer)))
            for peer in dict.fromkeys(row["peer"] for row in rows)
        ),
        (what, "the fastest of the three at each", ratio(best)),
    ]


def faster(rows: list[Row]) -> Row:
    """Of several peers at one thing, the one that does best against us."""
    return min(rows, key=lambda row: row["ratio"]["median"])


def native_step(rows: list[Row]) -> list[Line]:
    row = faster(where(rows, threads=2))
    what = f"training step of `{row['preset']}`, native, 2 threads"
    return [(what, f"PyTorch {row['torch']}, {row['variant']}", ratio([row]))]


def tab_step(rows: list[Row]) -> list[Line]:
    torch = faster([row for row in rows if row["against"] != "scalar"])
    what = f"training step of `{torch['preset']}`, tab, 2 threads"
    return [
        (what, f"PyTorch {torch['torch']}, {torch['against']}", ratio([torch])),
        (what, "scalar build in the same tab", ratio(where(rows, against="scalar"))),
    ]


def two_threads(rows: list[Row]) -> list[Line]:
    return [
        (f"training step of `{row['preset']}`, {row['where']}, 2 threads", "1 thread", ratio([row]))
        for row in rows
    ]


def late_tokens(rows: list[Row]) -> list[Line]:
    return [
        (
            f"a token of `{row['preset']}` at position {row['positions'][1]}, {row['where']}",
            f"at position {row['positions'][0]}",
            ratio([row]),
        )
        for row in rows
    ]


def sizes(rows: list[Row]) -> list[Line]:
    return [
        (
            f"a step per parameter and token, `{row['slowest']}`, {row['where']}",
            f"`{row['fastest']}`, the fastest size",
            ratio([row]),
        )
        for row in rows
        if "slowest" in row
    ]


def table() -> str:
    """Every comparison, a line each; speeds first, then times."""
    records = {what: record.read(what) for what in RECORDS}
    rows = {what: data["results"] for what, data in records.items()}
    speeds = [
        *native_products(rows["matmul-native"]),
        *tab_products(rows["matmul-tab"]),
        *other_libraries(rows["matmul-peers"]),
        *native_step(rows["step-torch"]),
        *tab_step(rows["step-tab"]),
        *two_threads(rows["step-threads"]),
    ]
    times = [*late_tokens(rows["generation"]), *sizes(rows["step-sizes"])]
    text = ""
    for head, lines in (
        ("| speed of | against | ratio, above 1 is faster |", speeds),
        ("| time, not speed | against | ratio, 1 is no growth |", times),
    ):
        text += f"{head}\n|---|---|---|\n"
        text += "".join(f"| {what} | {against} | {cell} |\n" for what, against, cell in lines)
        text += "\n"
    machines = list(dict.fromkeys(machine_of(data) for data in records.values()))
    machine = max(machines, key=len)  # the one that names the browser, too
    commits = ", ".join(dict.fromkeys(data["commit"] for data in records.values()))
    return (
        f"{text}Medians of pair ratios (quartiles); for products, geometric means of these over NN,"
        f" NT and TN.\n\n<sub>`make bench` on {machine}; commit {commits}; `bench/records/`</sub>\n"
    )
