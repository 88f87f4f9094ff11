"""The core under the address and undefined sanitizers: the parity tests, and random C ABI calls.

One build for both, kept under build/sanitize; tests/sanitize.py runs the others, and by

    python tests/sanitize.py asan+ubsan --fuzz 100000

more of the calls.
"""

from __future__ import annotations

import pytest
import sanitize

COUNT = 2000


@pytest.mark.sanitize
def test_parity_under_sanitizers() -> None:
    """Builds a copy of the core with the address and undefined sanitizers."""
    assert sanitize.run("asan+ubsan", quick=True) == ""


@pytest.mark.sanitize
def test_c_abi_under_sanitizers() -> None:
    text, clean = sanitize.fuzz("asan+ubsan", COUNT)
    assert clean, text
    assert f"{COUNT} inputs" in text
