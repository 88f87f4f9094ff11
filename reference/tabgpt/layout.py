"""Names, shapes and order of every tensor: what "by name" means on every backend."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import philox
from .config import ModelConfig


class Tensor(NamedTuple):
    """A parameter: Hugging Face's name, and how it starts."""

    name: str
    shape: tuple[int, ...]
    decayed: bool  # weight decay applies to tensors of 2 dimensions only
    std: float  # of the normal distribution it starts from; 0: starts at `fill`
    fill: float = 0.0


def tensors(config: ModelConfig) -> list[Tensor]:
    """Every parameter in the order of the arenas; the index is the tensor number that init uses."""
    V, T, C, F = config.vocab_size, config.ctx, config.d_model, config.d_mlp
    std = 0.02
    into_residual = std / sqrt(2 * config.n_layer)  # GPT-2, section 2.3: 2 * n_layer residual terms
    decayed = [
        Tensor("transformer.wte.weight", (V, C), True, std),
        Tensor("transformer.wpe.weight", (T, C), True, std),
    ]
    others = []
    for i in range(config.n_layer):
        h = f"transformer.h.{i}"
        decayed += [
            Tensor(f"{h}.attn.c_attn.weight", (C, 3 * C), True, std),
            Tensor(f"{h}.attn.c_proj.weight", (C, C), True, into_residual),
            Tensor(f"{h}.mlp.c_fc.weight", (C, F), True, std),
            Tensor(f"{h}.mlp.c_proj.weight", (F, C), True, into_residual),
        ]
        others += [
            Tensor(f"{h}.ln_1.weight", (C,), False, 0, 1),
            Tensor(f"{h}.ln_1.bias", (C,), False, 0),
            Tensor(f"{h}.attn.c_attn.bias", (3 * C,), False, 0),
            Tensor(f"{h}.attn.c_proj.bias", (C,), False, 0),
            Tensor(f"{h}.ln_2.weight", (C,), False, 0, 1),
            Tensor(f"{h}.ln_2.bias", (C,), False, 0),
            Tensor(f"{h}.mlp.c_fc.bias", (F,), False, 0),
            Tensor(f"{h}.mlp.c_proj.bias", (C,), False, 0),
        ]
    others += [
        Tensor("transformer.ln_f.weight", (C,), False, 0, 1),
        Tensor("transformer.ln_f.bias", (C,), False, 0),
    ]
    return decayed + others


def init(tensor: Tensor, number: int, seed: int) -> NDArray[np.float64]:
    """Starting values of a parameter; `number` is its index in tensors(config)."""
    if tensor.std == 0:
        return np.full(tensor.shape, tensor.fill)
    n = int(np.prod(tensor.shape))
    z = philox.normal(seed, n, 0, philox.stream(philox.INIT, layer=number))
    return (tensor.std * z).reshape(tensor.shape)


def activations(config: ModelConfig, B: int, T: int) -> dict[str, tuple[int, ...]]:
    """Name -> shape of everything a forward pass keeps, in the order in which it is computed."""
    C, H, V, F = config.d_model, config.n_head, config.vocab_size, config.d_mlp

    def layernorm(name: str) -> dict[str, tuple[int, ...]]:
        return {f"{name}.out": (B, T, C), f"{name}.mean": (B, T), f"{name}.rstd": (B, T)}

    shapes: dict[str, tuple[int, ...]] = {"embed.out": (B, T, C)}
    for i in range(config.n_layer):
        shapes |= layernorm(f"h.{i}.ln_1")
        shapes |= {
            f"h.{i}.attn.qkv": (B, T, 3 * C),
            f"h.{i}.attn.lse": (B, H, T),
            f"h.{i}.attn.out": (B, T, C),
            f"h.{i}.resid_mid": (B, T, C),
        }
        shapes |= layernorm(f"h.{i}.ln_2")
        shapes |= {
            f"h.{i}.mlp.fc": (B, T, F),
            f"h.{i}.mlp.act": (B, T, F),
            f"h.{i}.resid_out": (B, T, C),
        }
    return shapes | layernorm("ln_f") | {"logits": (B, T, V), "losses": (B, T)}


def activation_gradients(config: ModelConfig, B: int, T: int) -> dict[str, tuple[int, ...]]:
    """Name (without "grad:") -> shape of the activations whose gradients a probe keeps."""
    without = (".mean", ".rstd", ".lse", "losses")
    return {n: s for n, s in activations(config, B, T).items() if not n.endswith(without)}
