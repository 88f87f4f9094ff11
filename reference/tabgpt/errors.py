"""The one exception family: every message names the value, the limit and the way out."""

from __future__ import annotations


class TabgptError(Exception):
    """Anything that tabgpt refuses; catching this catches all of them."""


class ConfigError(TabgptError):
    """A hyper-parameter, preset or combination of them that cannot work."""


class CorpusError(TabgptError):
    """A text that is missing, unreadable, too short, or not the one that it should be."""


class TokenizerError(TabgptError):
    """A character or token id outside the vocabulary, or a model without a tokenizer."""


class CheckpointError(TabgptError):
    """A checkpoint that is missing, damaged, of another shape, or for another model."""


class BackendError(TabgptError):
    """A backend that is not there, or refuses the work asked of it."""


class NonFiniteError(TabgptError):
    """A loss or gradient norm that is NaN or infinite; training has stopped."""
