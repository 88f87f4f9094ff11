"""An update that overflows: its loss is finite, and only the next step's would not be."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import tabgpt
import tiny_run
from tabgpt import checkpoint as checkpoints
from tabgpt.backends.native import NativeSession
from tabgpt.errors import CheckpointError, NonFiniteError


def test_it_is_noticed_before_it_is_saved(tmp_path: Path) -> None:
    text = tmp_path / "tiny.txt"
    text.write_text(tiny_run.TEXT, encoding="utf-8")
    out = tmp_path / "run"
    run = tabgpt.train(tiny_run.recipe(autosave_seconds=1e-9, lr=0.5), text, out=out, threads=1)
    list(islice(run, 4))
    assert isinstance(run.model.session, NativeSession)
    run.model.session._core.tensor("m:transformer.wte.weight")[0, 0] = 3e38
    with pytest.raises(NonFiniteError) as caught:
        next(run)
    message = str(caught.value)
    assert "step 5: tensor transformer.wte.weight holds -inf at [0, 0], although" in message
    assert f"checkpoint of step 4 in {out} is safe" in message
    with pytest.raises(CheckpointError, match="the update of step 5 was not finite, so nothing is"):
        run.save()
    assert list(run) == []
    assert checkpoints.load(out, moments=True).step == 4
