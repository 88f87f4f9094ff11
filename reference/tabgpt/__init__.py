"""tabgpt: train a GPT from scratch in a browser tab, and prove that what it computes is right.

>>> for metrics in tabgpt.train(tabgpt.preset("tiny", steps=100), "text.txt", out="run"):
...     print(metrics.step, metrics.loss)
>>> model = tabgpt.load("run")
>>> print(model.generate("ROMEO:", max_new_tokens=200, temperature=0.8, top_k=40, seed=1))
"""

from __future__ import annotations

from .api import Model, load
from .config import ModelConfig, Recipe, RunConfig, SampleConfig, TrainConfig, preset
from .errors import TabgptError
from .run import Run
from .train import resume, train

__all__ = [
    "Model",
    "ModelConfig",
    "Recipe",
    "Run",
    "RunConfig",
    "SampleConfig",
    "TabgptError",
    "TrainConfig",
    "load",
    "preset",
    "resume",
    "train",
]
