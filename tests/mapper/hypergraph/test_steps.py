"""The steps of a run by nets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.hypergraph.steps import refine_trees
from mapper.runtime.checkpoint import Checkpoint
from mapper.runtime.context import Context
from mapper.runtime.monitor import Monitor
from mapper.settings import preset
from storage.scratch.scratch import Scratch


@pytest.mark.parametrize(
    ("saved", "cycles"),
    [([0.0, 0.0], 2), ([0.001, 0.02, 0.001, 0.001], 4), ([0.002] * 9, 9), ([0.001] * 9, 2)],
)
def test_cycles_end_when_two_in_a_row_save_little(
    saved: list[float], cycles: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a resumed run, too, which has made them all before."""
    shares, hops = iter([*saved, 0.5]), [1_000_000]

    def refine(nets: Any, core: Any, *_: Any) -> tuple[Any, int, int]:
        hops.append(round(hops[-1] * (1 - next(shares))))
        return core + 1, hops[-2], hops[-1]

    monkeypatch.setattr("mapper.hypergraph.steps.refine_by_trees", refine)
    settings = preset("default", objective="multicast", tree_cycles=len(saved))
    nothing: Any = None
    for _ in ("first", "resumed"):
        with Monitor() as monitor, Scratch(tmp_path / "scratch") as scratch:
            core = refine_trees(
                nothing,
                np.zeros(3, np.int32),
                nothing,
                Context(settings, nothing, Checkpoint(scratch), monitor, nothing),
                lambda core: None,
            )
        assert core.tolist() == [cycles] * 3
    assert len(hops) == cycles + 1
