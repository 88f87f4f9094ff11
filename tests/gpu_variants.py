"""The kernels that a GPU plan may choose, as the core lists them."""

from __future__ import annotations

import json
from typing import NamedTuple

from tabgpt import _core


class Variant(NamedTuple):
    family: str
    name: str
    feature: str
    training: bool
    default: bool

    @property
    def choice(self) -> str:
        return f"{self.family}={self.name}"


LISTED = [Variant(**entry) for entry in json.loads(_core.gpu_variants())]
TRAINED = [variant.choice for variant in LISTED if variant.training and not variant.feature]
"""Choices that every device can train with, each apart from its family's default alone."""
TRAINED_TOGETHER = [
    f"{matmul} {attention}"
    for matmul in TRAINED
    for attention in TRAINED
    if matmul.startswith("matmul=") and attention.startswith("attention=")
]
"""Every product kernel with every attention."""
VENDORS = ("nvidia", "amd", "intel", "apple", "qualcomm", "arm")
"""Makers of GPUs whose products have constants of their own (cpp/src/gpu/vendors.hpp)."""
NOT_DEFAULT = [v.choice for v in LISTED if v.choice in TRAINED and not v.default]
