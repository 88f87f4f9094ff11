"""Writes fixture.safetensors: what transformers and torch computed, for machines without them.

    python tests/interop/write_fixture.py

Needs the extra "interop". test_live.py asserts that the committed file is what this writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[1]))

from interop import comparison, hf

PATH = Path(__file__).with_name("fixture.safetensors")
IN_FIXTURE = ("usual", "odd sizes")


def arrays() -> dict[str, np.ndarray]:
    """Keys "case/kind/name": weights, outcome, and weights and norms after training."""
    result: dict[str, np.ndarray] = {}
    for case in IN_FIXTURE:
        config = comparison.CONFIGS[case]
        tokens, targets = comparison.batch(config)
        model = hf.random_model(config, seed=11)
        weights = hf.weights_of(model)
        outcome = hf.outcome(
            model, tokens, targets, comparison.PROMPT, comparison.new_tokens(config)
        )
        after, norms = hf.trained(model, comparison.TRAIN, comparison.rates(), tokens, targets)
        kinds = {"weights": weights, "outcome": outcome, "trained": after}
        for kind, named in kinds.items():
            result |= {f"{case}/{kind}/{name}": array for name, array in named.items()}
        result[f"{case}/norms/norms"] = np.array(norms)
    return {name: np.ascontiguousarray(array) for name, array in result.items()}


if __name__ == "__main__":
    import torch
    import transformers

    made_with = {"torch": torch.__version__, "transformers": transformers.__version__}
    save_file(arrays(), PATH, metadata=made_with)
    print(f"{PATH.name}: {PATH.stat().st_size} bytes")
