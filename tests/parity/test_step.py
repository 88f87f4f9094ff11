"""One training step by tensor name: every build against the oracle."""

from __future__ import annotations

import one_step
import pytest
from one_step import CPU, SETTINGS
from remote import Remote


@pytest.mark.parametrize("name", SETTINGS)
def test_step_agrees_by_tensor_name(core: Remote, name: str, measured) -> None:
    wanted, expected = SETTINGS[name], one_step.oracle(name)
    session = core.open(wanted.model, wanted.train, wanted.corpus(), "probe")
    got = one_step.drive(session, wanted)
    session.close()

    def note(share: float, tensor: str) -> None:
        measured("step", core.name, share, f"{tensor} ({name})")

    wrong = one_step.differences(got, expected, CPU, note)
    assert not wrong, "\n".join(wrong)


def test_some_settings_clip_and_some_do_not() -> None:
    """Else a missing clip coefficient, or one always there, would pass."""
    clipped = {
        one_step.oracle(name).metrics.grad_norm > SETTINGS[name].train.grad_clip
        for name in SETTINGS
    }
    assert clipped == {True, False}
