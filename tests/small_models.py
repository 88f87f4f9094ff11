"""Small models that between them reach every branch of the oracle, and data for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tabgpt import layout, model
from tabgpt.config import ModelConfig
from tabgpt.ops import Dropout


@dataclass(frozen=True)
class Case:
    """One model and the batch shape that it is looked at with."""

    name: str
    config: ModelConfig
    B: int
    T: int

    def dropout(self) -> Dropout:
        return Dropout(self.config.dropout, seed=7, step=3, micro=1)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        ids = np.random.default_rng(2).integers(0, self.config.vocab_size, (2, self.B, self.T))
        return ids[0], ids[1]


def random_params(config: ModelConfig, seed: int = 1, std: float = 0.4) -> model.Tensors:
    """Weights far from their start, LayerNorms and biases too: no term is negligible."""
    rng = np.random.default_rng(seed)
    return {
        tensor.name: tensor.fill + std * rng.standard_normal(tensor.shape)
        for tensor in layout.tensors(config)
    }


def _case(name: str, B: int, T: int, **config: object) -> Case:
    return Case(name, ModelConfig(**config), B, T)  # type: ignore[arg-type]


CASES = [
    _case("usual", 2, 5, vocab_size=11, ctx=6, n_layer=2, n_head=2, d_model=8, d_mlp=16,
          dropout=0.0, activation="gelu_tanh"),
    _case("erf", 2, 4, vocab_size=7, ctx=4, n_layer=1, n_head=3, d_model=6, d_mlp=0,
          dropout=0.0, activation="gelu_erf"),
    _case("dropout, odd sizes", 3, 5, vocab_size=3, ctx=7, n_layer=2, n_head=1, d_model=5, d_mlp=9,
          dropout=0.3, activation="gelu_tanh"),
    _case("dropout, erf", 1, 6, vocab_size=13, ctx=6, n_layer=2, n_head=2, d_model=6, d_mlp=7,
          dropout=0.5, activation="gelu_erf"),
    _case("one token", 1, 1, vocab_size=5, ctx=3, n_layer=1, n_head=1, d_model=3, d_mlp=4,
          dropout=0.0, activation="gelu_tanh"),
    _case("one of everything", 1, 1, vocab_size=2, ctx=1, n_layer=1, n_head=1, d_model=1, d_mlp=1,
          dropout=0.0, activation="gelu_erf"),
]  # fmt: skip
