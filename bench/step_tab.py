"""Our training step in a Chromium tab against PyTorch's on the CPU: python bench/step_tab.py

The preset nanogpt-cpu: the relaxed build on two threads, PyTorch eager and
compiled on two threads, and our scalar build in the same tab. All start from the
same weights, and their first losses on the same batches are compared.
"""

from __future__ import annotations

import command
import numpy as np
import pairs
import torch
from step_torch import CHECKED_STEPS, LOSS_BOUND, PRESET, VARIANTS, VOCAB, Peer
from tab_session import TabSession, open_tab
from tabgpt.backends.native import NativeSession

BUILD, SCALAR = "relaxed-threads", "scalar"
THREADS = 2
TOKENS = np.random.default_rng(7).integers(VOCAB, size=100_000).astype(np.uint32)


def start_peer(effort: command.Effort, variant: str) -> Peer:
    """PyTorch with the weights that the core starts from."""
    recipe = effort.recipe(PRESET)
    weights = NativeSession(recipe.model(VOCAB), recipe.train, TOKENS, mode="train")
    weights.init_weights()
    peer = Peer(weights, recipe.train, TOKENS)
    weights.close()
    if variant == "compiled":
        peer.loss = torch.compile(peer.model, fullgraph=True)
    return peer


def measure(effort: command.Effort) -> command.Outcome:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    variants = VARIANTS[:1] if effort.quick else VARIANTS
    recipe = effort.recipe(PRESET)
    with open_tab() as page:
        ours = TabSession(page, BUILD, THREADS, recipe, VOCAB, TOKENS)
        scalar = TabSession(page, SCALAR, 1, recipe, VOCAB, TOKENS)
        losses = ours.losses(CHECKED_STEPS)
        sides = {"ours": ours.step_side(), SCALAR: scalar.step_side()}
        theirs = {SCALAR: scalar.losses(CHECKED_STEPS)}
        for variant in variants:
            peer = start_peer(effort, variant)
            theirs[variant] = peer.first_losses(TOKENS)
            sides[variant] = pairs.Side(peer.step)
        taken = pairs.take_rounds(
            list(sides.values()), rounds=effort.rounds, sample_s=effort.sample_s
        )
        browser = page.browser
    print("against: speed ours / theirs (quartiles), ms a step of each")
    results = []
    for against in (*variants, SCALAR):
        row = {
            "against": against,
            "preset": PRESET,
            "build": BUILD,
            "threads": THREADS,
            "torch": torch.__version__,
            "losses_relative": command.relative(losses, theirs[against]),
            **pairs.samples(sides["ours"], sides[against]),
            **taken,
        }
        results.append(row)
        ms = [1e3 * float(np.median(row[f"{side}_s"])) for side in ("ours", "peer")]
        print(f"{against:9s} {command.shown(row['ratio'])}  {ms[0]:.1f} {ms[1]:.1f}", flush=True)
    worst = command.worst(row["losses_relative"] for row in results)
    why = (
        f"the first {CHECKED_STEPS} losses of all sides differ by at most {worst:.1e} "
        f"(bound {LOSS_BOUND:g}), relative"
    )
    return command.Outcome(results, worst <= LOSS_BOUND, why, {"browser": browser})


if __name__ == "__main__":
    command.run("step-tab", __doc__, command.Effort(rounds=15), measure)
