"""Writes the README's figures from the records: python bench/tables.py [--check]

A block `<!-- figures: NAME -->` ... `<!-- /figures -->` in README.md is replaced by
what the function of that name below makes of its record. --check writes nothing
and fails where the README says something else than the records.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable

import record
import speed
from markdown import Row, ratio, shape_of, source, thread_columns

README = record.ROOT / "README.md"
STAGES = record.ROOT / "bench/stages.json"
BLOCK = re.compile(r"(<!-- figures: ([a-z0-9-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)


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


def matmul_native() -> str:
    """Speed of our SGEMM as a share of OpenBLAS's, by shape and threads."""
    data = record.read("matmul-native")
    rows = data["results"]
    threads = sorted({row["threads"] for row in rows})
    table = thread_columns("M × K × N", threads)

    def line(name: str, chosen: list[Row]) -> str:
        cells = [ratio(row for row in chosen if row["threads"] == n) for n in threads]
        return f"| {name} | " + " | ".join(cells) + " |\n"

    for shape in dict.fromkeys(map(shape_of, rows)):
        table += line(shape, [row for row in rows if shape_of(row) == shape])
    table += line("geometric mean", rows)
    kernels = ", ".join(sorted({row["openblas"] for row in rows}))
    table += (
        f"\nOurs / OpenBLAS ({kernels} kernels), above 1 ours is faster: geometric means over NN,"
        " NT and TN of the medians of pair ratios (of their quartiles).\n"
    )
    return table + source(data)


def step_torch() -> str:
    """Speed of our training step as a multiple of PyTorch's, eager and compiled."""
    data = record.read("step-torch")
    rows = data["results"]
    threads = sorted({row["threads"] for row in rows})
    table = thread_columns("PyTorch", threads)
    for variant in dict.fromkeys(row["variant"] for row in rows):
        cells = [
            ratio([r for r in rows if (r["variant"], r["threads"]) == (variant, n)])
            for n in threads
        ]
        table += f"| {rows[0]['torch']}, {variant} | " + " | ".join(cells) + " |\n"
    table += (
        f"\nOurs / PyTorch, a training step of `{rows[0]['preset']}` on as many threads, above 1"
        " ours is faster: medians of pair ratios (quartiles).\n"
    )
    return table + source(data)


def matmul_tab() -> str:
    """The tab's SGEMM as a share of a loop in registers, and two threads against one."""
    data = record.read("matmul-tab")
    loops = [row for row in data["results"] if row["against"] == "registers"]
    threads = [row for row in data["results"] if row["against"] == "one thread"]
    table = "| build | product | of the fastest loop in registers | 2 threads against 1 |\n"
    table += "|---|---|---|---|\n"
    for build in dict.fromkeys(row["build"] for row in loops):
        # The loop that all shapes were compared with is the fastest; the cube met the others too.
        mine = [row for row in loops if row["build"] == build]
        best = mine[-1]["loop"]
        groups: dict[str, dict[str, list[Row]]] = {}
        for kind, rows in (
            ("loop", [row for row in mine if row["loop"] == best]),
            ("threads", [row for row in threads if row["build"] == f"{build}-threads"]),
        ):
            for row in rows:
                cube = len(set(row["shape"])) == 1
                name = shape_of(row) if cube else "training shapes"
                groups.setdefault(name, {}).setdefault(kind, []).append(row)
        for name, kinds in groups.items():
            cells = [ratio(kinds[kind]) if kind in kinds else "" for kind in ("loop", "threads")]
            cells[0] += f" {best}" if cells[0] else ""
            table += f"| {build} | {name} | " + " | ".join(cells) + " |\n"
    table += (
        "\nGeometric means over NN, NT and TN (and the training step's five shapes) of the medians"
        " of pair ratios (of their quartiles).\n"
    )
    return table + source(data)


def peer_columns(rows: list[Row]) -> str:
    """A column a peer, a line a shape, and all of them."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    table = "| M × K × N | " + " | ".join(peers) + " |\n|---" + "|---" * len(peers) + "|\n"

    def line(name: str, chosen: list[Row]) -> str:
        cells = [ratio(row for row in chosen if row["peer"] == peer) for peer in peers]
        return f"| {name} | " + " | ".join(cells) + " |\n"

    for shape in dict.fromkeys(map(shape_of, rows)):
        table += line(shape, [row for row in rows if shape_of(row) == shape])
    return table + line("geometric mean", rows)


def about_peers(rows: list[Row]) -> str:
    return "; ".join(dict.fromkeys(row["about"] for row in rows))


def kernels_tab() -> str:
    """Our fastest product on the browser's GPU against other libraries' there; whole steps."""
    data = record.read("kernels-tab")
    rows = [
        {**row, "shape": [int(size) for size in row["case"].split()[2:]]}
        for row in data["results"]
        if row["kind"] == "peer"
    ]
    steps = [row for row in data["results"] if row["kind"] == "step" and row["wall_s"]]
    table = peer_columns(rows) + (
        f"\nOurs / theirs on {data['machine']['adapter']} ({about_peers(rows)}), above 1 ours is"
        " faster: geometric means over NN, NT and TN of the medians of pair ratios (of their"
        " quartiles)."
    )
    if data["machine"]["software_adapter"]:
        table += " That is a program on the CPU, which says nothing of any GPU."
    if steps:
        times = (
            f"`{row['case']}` {1e3 * statistics.median(row['wall_s']):,.0f} ms ({row['variant']})"
            for row in steps
        )
        table += f" A training step there: {', '.join(times)}."
    return table + "\n" + source(data)


def matmul_peers() -> str:
    """The tab's SGEMM against other libraries' in the same tab, by shape."""
    data = record.read("matmul-peers")
    rows = data["results"]
    table = peer_columns(rows) + (
        f"\nOurs on two threads / theirs ({about_peers(rows)}), above 1 ours is faster: geometric"
        " means over NN, NT and TN of the medians of pair ratios (of their quartiles)."
        " onnxruntime-web's time contains copying the operands, for which its graphs have no other"
        " way.\n"
    )
    return table + source(data)


def step_sizes() -> str:
    """Step time per parameter and token by preset, native and in the tab."""
    data = record.read("step-sizes")
    rows = [row for row in data["results"] if "preset" in row]
    places = list(dict.fromkeys(row["where"] for row in rows))
    table = "| preset | parameters | tokens a step | " + " | ".join(
        f"{where}, ms a step | ps per parameter and token" for where in places
    )
    table += " |\n" + "|---" * (3 + 2 * len(places)) + "|\n"
    for preset in dict.fromkeys(row["preset"] for row in rows):
        mine = [row for row in rows if row["preset"] == preset]
        cells = [
            f"{1e3 * statistics.median(row['seconds']):.1f} | {1e12 * row['per']:.0f}"
            for row in mine
        ]
        table += f"| {preset} | {mine[0]['parameters']:,} | {mine[0]['tokens']:,} | "
        table += " | ".join(cells) + " |\n"
    return table + "\nTwo threads; medians.\n" + source(data)


def gpu_counts() -> str:
    """What a training step asks of a GPU, by preset."""
    data = record.read("gpu-counts")
    rows = data["results"]
    table = (
        "| preset | tokens a step | dispatches | second passes among them | before | GFLOP | GB "
    )
    table += "| before | FLOP a byte | floor, ms | MiB |\n" + "|---" * 11 + "|\n"
    for row in rows:
        step, before = row["step"], row["before"]
        table += (
            f"| {row['preset']} | {row['tokens']:,} | {step['dispatches']:,}"
            f" | {step['second_passes']:,} | {before['dispatches']:,}"
            f" | {step['operations'] / 1e9:,.2f} | {step['bytes'] / 1e9:,.3f}"
            f" | {before['bytes'] / 1e9:,.3f}"
            f" | {step['intensity']:.1f} | {step['floor_ms']:,.3f}"
            f" | {row['memory']['total'] / 2**20:,.1f} |\n"
        )
    gpu = f"{rows[0]['tflops']:g} TFLOP/s and {rows[0]['gb_s']:g} GB/s"
    then = f"before is commit {rows[0]['before']['commit']}"
    return f"{table}\nCounted, not timed; the floor is a GPU's of {gpu}; {then}.\n" + source(data)


def memory64() -> str:
    """Speed of a step in 64-bit memory against 32-bit, with bounds checks and without."""
    data = record.read("memory64")
    rows = data["results"]
    table = "| kernels | 64-bit / 32-bit | the same without V8's bounds checks |\n|---|---|---|\n"
    for kernels in dict.fromkeys(row["kernels"] for row in rows):
        cells = [
            ratio(row for row in rows if (row["kernels"], row["bounds_checks"]) == (kernels, kept))
            for kept in (True, False)
        ]
        table += f"| {kernels} | " + " | ".join(cells) + " |\n"
    table += (
        f"\nSpeed of a training step of `{rows[0]['preset']}` on {rows[0]['threads']} threads in a"
        " tab, above 1 the 64-bit build is faster: medians of pair ratios (quartiles).\n"
    )
    return table + source(data)


def behemoth() -> str:
    """The largest preset's life: natively, in Node and in a tab."""
    data = record.read("behemoth")
    rows = data["results"]

    def cell(row: Row, key: str) -> str:
        if key not in row:
            return ""
        value = row[key]
        if key == "losses":
            return ", ".join(f"{loss:.6f}" for loss in value)
        if isinstance(value, list):
            value = statistics.median(value)
        return f"{value / 2**30:.2f}" if key.endswith("bytes") else f"{value:.1f}"

    lines = {
        "allocate_s": "seconds to allocate and zero it",
        "step_s": "seconds a step",
        "losses": "losses of the first steps",
        "save_s": "seconds to save it, with AdamW's moments",
        "checkpoint_bytes": "GiB saved",
        "load_s": "seconds to load it again",
        "training_peak_bytes": "GiB of memory, the most while it trains",
        "peak_bytes": "GiB of memory, the most at all",
    }
    table = "| | " + " | ".join(row["where"] for row in rows) + " |\n"
    table += "|---" * (len(rows) + 1) + "|\n"
    for key, name in lines.items():
        table += f"| {name} | " + " | ".join(cell(row, key) for row in rows) + " |\n"
    parameters, verdict = rows[-1]["parameters"], data["verdict"]["why"]
    return f"{table}\n{parameters:,} parameters, 2 threads: {verdict}.\n" + source(data)


def evolution() -> str:
    """A training step on every stage, as a multiple of the scalar WebAssembly build's speed."""
    data = record.read("evolution")
    presets = list(dict.fromkeys(row["preset"] for row in data["results"]))
    rows = {(row["preset"], row["stage"]): row for row in data["results"]}
    stages = json.loads(STAGES.read_text())["stages"]
    labels = {stage["name"]: stage["label"] for stage in stages}
    table = "| stage | " + " | ".join(f"`{preset}`" for preset in presets) + " |\n"
    table += "|---" * (1 + len(presets)) + "|\n"
    for stage in stages:
        name, label = stage["name"], stage["label"]
        if stage["host"] == "gpu" and data["machine"]["software_adapter"]:
            label += ", on a software adapter"
        cells = [
            f"{rows[preset, name]['ratio']['median']:.2f}" if (preset, name) in rows else ""
            for preset in presets
        ]
        table += f"| {label} | " + " | ".join(cells) + " |\n"
    table += (
        "\nSpeed of a step as a multiple of the scalar WebAssembly build's: medians of pair ratios."
        f" An empty cell was not measured. WebGPU is {data['machine']['adapter']}.\n"
    )
    missed = [
        f"- {labels[name]}, `{preset}`: {gain['why']}\n"
        for (preset, name), row in rows.items()
        for gain in row.get("gains", [])
        if gain["why"] != ""
    ]
    return table + "".join(["\n", *missed] if missed else []) + source(data)


FIGURES: dict[str, Callable[[], str]] = {
    "learns": learns,
    "lr-sweep": lr_sweep,
    "speed": speed.table,
    "matmul-native": matmul_native,
    "step-torch": step_torch,
    "matmul-tab": matmul_tab,
    "matmul-peers": matmul_peers,
    "kernels-tab": kernels_tab,
    "step-sizes": step_sizes,
    "evolution": evolution,
    "gpu-counts": gpu_counts,
    "memory64": memory64,
    "behemoth": behemoth,
}


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
