"""The steps of a run on nets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from mapper.hypergraph.partition import PartitionEffort
from mapper.hypergraph.steps import NetTask, partition_nets, refine_trees
from mapper.hypergraph.tree_refinement import TreeEffort
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.settings import preset
from storage.scratch.scratch import Scratch

PLAN = Plan(1 << 30, {"read": 1}, 0, 0, True, 0, 1 << 20, 0, 1, nets_held=True)


@pytest.mark.parametrize(
    ("saved", "cycles"),
    [([0.0, 0.0], 2), ([0.001, 0.02, 0.001, 0.001], 4), ([0.002] * 9, 9), ([0.001] * 9, 2)],
)
def test_cycles_end_after_two_small_gains(
    saved: list[float], cycles: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a resumed run that has completed them all before."""
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
                Context(settings, PLAN, Checkpoint(scratch), monitor, nothing),
                lambda core: None,
            )
        assert core.tolist() == [cycles] * 3
    assert len(hops) == cycles + 1


@pytest.mark.parametrize("objective", ["core", "multicast"])
def test_refinement_has_its_share_of_the_work(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TreeEffort] = []

    def refine(nets: Any, core: Any, mesh: Any, effort: TreeEffort, *_: Any) -> Any:
        seen.append(effort)
        return core, 9, 9

    monkeypatch.setattr("mapper.hypergraph.steps.refine_by_trees", refine)
    settings = preset("default", objective=objective, tree_cycles=1, packet_cycles=1)
    nothing: Any = None
    for share in (1.0, 0.25):
        with Monitor() as monitor, Scratch(tmp_path / f"scratch{share}") as scratch:
            plan = replace(PLAN, net_work=share)
            context = Context(settings, plan, Checkpoint(scratch), monitor, nothing)
            refine_trees(nothing, np.zeros(3, np.int32), nothing, context, lambda core: None)
    whole, part = seen
    assert (part.proposals, part.most) == (whole.proposals / 4, whole.most / 4)
    assert replace(part, proposals=0, most=0, least=0) == replace(
        whole, proposals=0, most=0, least=0
    )


def test_a_brief_partition_has_little_effort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[PartitionEffort] = []

    def partition(nets: Hypergraph, parts: int, _: int, effort: PartitionEffort, *__: Any) -> Any:
        seen.append(effort)
        return np.arange(nets.vertices, dtype=np.int32) % parts

    monkeypatch.setattr("mapper.hypergraph.steps.partition_hypergraph", partition)
    start, pins = np.array([0, 2, 4]), np.array([0, 1, 2, 3], np.int32)
    nets = make_hypergraph(start, pins, np.ones(2, np.int64), np.ones(4, np.int64))
    nothing: Any = None
    for brief in (False, True):
        with Monitor() as monitor, Scratch(tmp_path / f"scratch{brief}") as scratch:
            plan = replace(PLAN, brief=brief)
            steps = Checkpoint(scratch)
            context = Context(preset("default"), plan, steps, monitor, nothing)
            part, count = partition_nets(NetTask(nets, nothing, 2, 2), context)
        assert (sorted(part.tolist()), count) == ([0, 0, 1, 1], 2)
    full, little = seen
    assert (full.v_cycles, full.rebisections) == (1, 10)
    assert (little.v_cycles, little.rebisections) == (0, 0)
    assert little.search.budget < full.search.budget
    assert little.bisection.tries < full.bisection.tries
