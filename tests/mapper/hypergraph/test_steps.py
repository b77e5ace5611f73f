"""The steps of a run on nets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from mapper.hypergraph.partition import PartitionEffort
from mapper.hypergraph.steps import NetTask, partition_nets, refine_trees
from mapper.hypergraph.tree_refinement import TreeEffort
from mapper.monitoring.callbacks import ignore
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.settings import preset
from storage.scratch.scratch import Scratch

PLAN = Plan(1 << 30, {"read": 1}, 0, 0, True, 0, 1 << 20, 0, 1, nets_held=True)


NOTHING: Any = None


@contextmanager
def context_of(folder: Path, plan: Plan, **chosen: Any) -> Iterator[Context]:
    with Monitor() as monitor, Scratch(folder) as scratch:
        yield Context(preset("default", **chosen), plan, Checkpoint(scratch), monitor, NOTHING)


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
    chosen = {"objective": "multicast", "tree_cycles": len(saved)}
    for _ in ("first", "resumed"):
        with context_of(tmp_path / "scratch", PLAN, **chosen) as context:
            core = refine_trees(NOTHING, np.zeros(3, np.int32), NOTHING, context, ignore)
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
    chosen = {"objective": objective, "tree_cycles": 1, "packet_cycles": 1}
    for share in (1.0, 0.25):
        plan = replace(PLAN, net_work=share)
        with context_of(tmp_path / str(share), plan, **chosen) as context:
            refine_trees(NOTHING, np.zeros(3, np.int32), NOTHING, context, ignore)
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
    for brief in (False, True):
        with context_of(tmp_path / str(brief), replace(PLAN, brief=brief)) as context:
            part, count = partition_nets(NetTask(nets, NOTHING, 2, 2), context)
        assert (sorted(part.tolist()), count) == ([0, 0, 1, 1], 2)
    full, little = seen
    assert (full.v_cycles, full.rebisections) == (1, 10)
    assert (little.v_cycles, little.rebisections) == (0, 0)
    assert little.search.budget < full.search.budget
    assert little.bisection.tries < full.bisection.tries
